"""What the benchmarks stand on: the task, teams, the stopwatch, and the arithmetic of comparing."""

from __future__ import annotations

import argparse
import importlib.util
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import train_step
from contest.gpt import Ours
from contest.options import peer_present, result
from contest.profile import Profile, Spent
from contest.rounds import Rounds, ratio
from contest.stopwatch import profile
from contest.task import FULL, TINY, Task
from contest.team import Team, TeamError
from contest.trainee import Lap

import shardwise as sw
from shardwise.tensor import Context, Function
from shardwise.tensor.ops.matmul import Linear


def test_the_task_has_the_size_that_it_says() -> None:
    sizes = {name: w.size for name, w in FULL.weights().items()}
    block = 12 * 256 * 256 + 13 * 256  # four matrices and their biases, two norms
    assert sum(sizes.values()) == 4 * block + (256 + 128) * 256 + 2 * 256 + 256 * 256
    assert FULL.tokens == 2048
    assert FULL.product == (2048, 256, 1024)


def test_the_task_is_the_same_in_every_process() -> None:
    assert Task.from_json(TINY.to_json()) == TINY
    first, second = TINY.weights(), TINY.weights()
    assert all(np.array_equal(first[name], second[name]) for name in first)
    rows = TINY.rows(rank=1, step=2)
    assert np.array_equal(rows, TINY.rows(rank=1, step=2))
    assert not np.array_equal(rows, TINY.rows(rank=0, step=2))
    assert not np.array_equal(rows, TINY.rows(rank=1, step=1))
    assert rows.shape == (2, 9)
    assert rows.min() >= 0
    assert rows.max() < 256


def test_ours_learns_the_task() -> None:
    ours = Ours(TINY)
    losses = [ours.step().loss for _ in range(60)]
    assert losses[0] == pytest.approx(math.log(256), rel=0.02)  # small weights know nothing
    assert np.mean(losses[-5:]) < losses[0] - 0.1


def test_the_stopwatch_sees_every_op_once() -> None:
    ours = Ours(TINY)
    forward, backward, product = Linear.forward, Linear.backward, np.matmul
    found = profile(ours, 3)
    assert (Linear.forward, Linear.backward, np.matmul) == (forward, backward, product)
    calls = {(one.op, one.direction): one.calls for one in found.spent}
    per_step = {"Linear": 5, "LayerNorm": 3, "Attention": 1, "Gelu": 1, "CrossEntropy": 1, "Embedding": 1}
    for op, count in per_step.items():
        assert (calls[op, "forward"], calls[op, "backward"]) == (count, count)
    assert {one.op for one in found.spent if one.products} == {"Linear", "Attention"}
    assert all(0 <= one.products <= one.seconds for one in found.spent)
    assert 0 < found.products < found.seconds
    assert 0 < found.outside < found.forward + found.backward
    # By hand, two per multiply-add: four matrices of a block and the head; scores and their use.
    assert found.flops["Linear"] == 2 * TINY.tokens * (12 * 16 * 16 + 16 * 256)
    assert found.flops["Attention"] == 2 * (2 * TINY.batch * TINY.context * TINY.context * 16)
    assert found.product_flops == 3 * (found.flops["Linear"] + found.flops["Attention"])


class Inner(Function):
    """Sleeps, and multiplies."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: np.ndarray) -> np.ndarray:
        time.sleep(0.01)
        return np.matmul(x, x)

    @staticmethod
    def backward(ctx: Context, g: np.ndarray) -> tuple[np.ndarray]:
        return (g,)


class Outer(Function):
    """Sleeps, and calls another op's formula."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: np.ndarray) -> np.ndarray:
        time.sleep(0.01)
        return Inner.apply(x)

    @staticmethod
    def backward(ctx: Context, g: np.ndarray) -> tuple[np.ndarray]:
        time.sleep(0.02)
        return (g,)


class Sleeper:
    """A trainee whose step is known to the millisecond."""

    rank, size = 0, 1

    def step(self, synchronised: bool = True) -> Lap:
        start = time.perf_counter()
        x = sw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = Outer.apply(x).sum() + Inner.apply(x).sum()
        middle = time.perf_counter()
        y.backward()
        return Lap(0.0, middle - start, time.perf_counter() - middle, 0.0)

    def barrier(self) -> None: ...

    def all_reduce(self) -> float:
        return 0.0

    def product(self) -> float:
        return 1.0

    def close(self) -> None: ...


def test_a_formula_inside_another_counts_as_the_outer_one() -> None:
    found = profile(Sleeper(), 2)
    spent = {(one.op, one.direction): one for one in found.spent}
    # Sleeping takes at least as long as asked, and the parts never more than the whole.
    assert spent["Outer", "forward"].seconds >= 0.02
    assert spent["Inner", "forward"].seconds >= 0.01
    assert spent["Outer", "backward"].seconds >= 0.02
    assert spent["Inner", "forward"].calls == 1
    assert spent["Outer", "forward"].products > 0
    assert sum(one.seconds for one in found.spent) <= found.seconds


def test_a_profile_shows_the_slowest_first() -> None:
    spent = (Spent("Few", "forward", 0.001, 0.0, 2), Spent("Many", "forward", 0.002, 0.001, 1))
    shown = str(
        Profile(
            (*spent, Spent("Many", "backward", 0.003, 0.002, 1)), {"Few": 1, "Many": 4}, 0.004, 0.004, 0.002
        )
    )
    assert shown.splitlines() == [
        "op                         calls   forward  backward  products  of step",
        "Many                           1      2.00      3.00      3.00    50.0%",
        "Few                            2      1.00      0.00      0.00    10.0%",
        "optimizer                                                 2.00    20.0%",
        "modules, tape and engine                                  2.00    20.0%",
        "the step                                                 10.00   100.0%",
    ]


def test_ratios_are_of_medians_and_spread_over_rounds() -> None:
    ours, peer = Rounds([[1.0, 2.0, 9.0], [4.0]]), Rounds([[1.0], [2.0, 2.0]])
    assert (ours.median, ours.medians, peer.median) == (3.0, [2.0, 4.0], 2.0)
    assert ours.show("ms") == "3 ms (2 to 4)"
    assert str(ratio(ours, peer)) == "1.500 (2.000 to 2.000)"


@pytest.mark.parametrize(
    ("more", "ours", "limit", "share"), [(False, 8.0, 2.0, 0.25), (True, 8.0, 32.0, 0.25)]
)
def test_the_share_of_the_limit_is_below_one_either_way(
    more: bool, ours: float, limit: float, share: float
) -> None:
    assert result("x", "unit", ours, 4.0, limit, more)["share_of_limit"] == share
    assert result("x", "unit", ours, 4.0, limit, more)["ratio"] == 2.0
    assert result("x", "unit", ours)["share_of_limit"] is None


def test_the_peer_is_measured_where_it_is_installed_and_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted, refused = argparse.Namespace(no_peer=False), argparse.Namespace(no_peer=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert peer_present(wanted)
    assert not peer_present(refused)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not peer_present(wanted)
    printed = "torch is not measured: --no-peer\ntorch is not measured: it is not installed\n"
    assert capsys.readouterr().out == printed


def test_losses_that_differ_end_the_comparison() -> None:
    assert train_step.compare_losses("1 rank", [5.0, 4.0], [5.0, 4.002]) == pytest.approx(5e-4, rel=1e-3)

    def message(ours: Sequence[float], peer: Sequence[float]) -> str:
        with pytest.raises(RuntimeError) as caught:
            train_step.compare_losses("1 rank", ours, peer)
        return str(caught.value)

    assert message([5.0, 4.0], [5.0, 4.4]) == (
        "1 rank: ours and torch do not train alike. From the same weights and batches, the first losses are "
        "[5.0, 4.0] and [5.0, 4.4], 9.1e-02 apart; at most 1e-03 is rounding."
    )
    assert "nan apart" in message([math.nan], [5.0])


def test_a_team_that_cannot_start_says_what_its_processes_said(monkeypatch: pytest.MonkeyPatch) -> None:
    message = failure_of(Task(layers=1, dim=-1, heads=1, context=8, batch=1), monkeypatch)
    assert message[0] == "the team of ours, 1 rank ended before it was ready. Its last output:"
    assert message[1] == "Traceback (most recent call last):"
    assert "must be an integer of at least 0, got -1" in message[-1]


def test_a_team_that_loses_a_rank_says_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nine features cannot be shared by two heads, which the first step finds out.
    message = failure_of(Task(layers=1, dim=9, heads=2, context=8, batch=1), monkeypatch)
    assert message[0] == "the team of ours, 1 rank lost a rank. Its last output:"
    assert message[1] == "Traceback (most recent call last):"
    assert "ShapeError" in message[-1]


def failure_of(task: Task, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the error of a team with an impossible task, of which no file is left."""
    folder = tempfile.mkdtemp(prefix="contest-")
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: folder)
    with pytest.raises(TeamError) as caught, Team("ours", task) as team:
        team.steps(1)
    assert not Path(folder).exists()
    return str(caught.value).splitlines()
