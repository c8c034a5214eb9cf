"""Skip values at run time: from any stage to any later ones, equal to a model in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Pipeline, PipelineStage, Program, fetch, lower, stash
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor

WIDTH, ROWS = 5, 17
X = np.random.default_rng(2).standard_normal((ROWS, WIDTH))
Y = np.random.default_rng(3).standard_normal((ROWS, WIDTH))

# Stage -> later stages that take its value: several takers, several values for one, and one stage on.
WAYS: dict[int, dict[int, tuple[int, ...]]] = {
    2: {0: (1,)},
    3: {0: (1, 2), 1: (2,)},
    4: {0: (2, 3), 1: (3,)},
    6: {0: (2, 5), 1: (4,), 2: (3, 5)},
    8: {0: (4, 7), 1: (6,), 3: (5, 7)},
}


class Part(nn.Module):
    """A stage that stashes two values and fetches some."""

    def __init__(self, index: int, count: int, learns: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.2)
        rng = np.random.default_rng(index)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape) / 2
            parameter.requires_grad_(learns)
        self.index, self.ways = index, WAYS.get(count, {})

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.linear(x).tanh())
        for source, targets in self.ways.items():
            if self.index in targets:
                y = y * fetch(f"scale{source}") + fetch(f"shift{source}")
        if self.index in self.ways:
            stash(f"scale{self.index}", y.sin())
            stash(f"shift{self.index}", x * 0.5)
        return y


class Whole(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Part(i, count, learns=i != 1) for i in range(count)])

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x


class Named(nn.Module):
    """A part under the name that it has in the whole."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({str(index): Part(index, count, learns=index != 1)})
        self.index = index

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.parts[str(self.index)](x)
        return found


def unsplit(count: int, steps: int) -> list[list[Any]]:
    sw.manual_seed(11)
    model = Whole(count)
    for _ in range(steps):
        F.mse_loss(model(sw.tensor(X)), sw.tensor(Y)).backward()
    return [[None if p.grad is None else p.grad.numpy() for p in part.parameters()] for part in model.parts]


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("p", [2, 3, 4])
@pytest.mark.parametrize("name", ["GPipe", "1F1B", "ZBH1", "Interleaved1F1B", "ZBVZeroBubble", "DualPipe"])
def test_gradients_with_skips(name: str, p: int, checkpoint: bool) -> None:
    if name == "DualPipe" and p % 2:
        pytest.skip("DualPipe takes an even number of ranks")
    named = NAMED[name]
    per_rank = 1 if named.per_rank and named.per_rank[0] == 1 else 2
    program = named.program(name, p, 2 * p, per_rank)
    wanted = unsplit(program.stages, 2)

    def run(rank: int) -> None:
        sw.manual_seed(11)
        stages = [
            PipelineStage(Named(s, program.stages), s, program.stages, checkpoint=checkpoint)
            for s in program.stages_of(rank)
        ]
        pipe = Pipeline(program, stages, loss_fn=F.mse_loss, replicas=named.replicas)
        for _ in range(2):
            pipe.step(
                *((sw.tensor(X),) if pipe.has_first else ()),
                target=sw.tensor(Y) if pipe.has_last else None,
            )
        for stage in stages:
            assert not stage.live
            got = [p.grad for p in stage.submodule.parameters()]
            for mine, other in zip(got, wanted[stage.stage_index], strict=True):
                if other is None:
                    assert mine is None
                else:
                    np.testing.assert_allclose(mine.numpy(), other, rtol=1e-12, atol=1e-13)

    run_threads(run, p)


def test_a_model_in_one_piece_takes_the_last_value() -> None:
    stash("state", sw.tensor([1.0]))
    stash("state", sw.tensor([2.0]))
    assert float(fetch("state")) == 2.0
    with pytest.raises(
        ScheduleError, match=r"fetch\('other'\): no earlier stage has stashed it; there are .*state"
    ):
        fetch("other")


def test_only_tensors_are_stashed() -> None:
    with pytest.raises(ScheduleError, match=r"stash\('mask'\): wanted a Tensor, got a list"):
        stash("mask", [1.0])  # type: ignore[arg-type]


def test_what_nobody_stashed_is_named_on_all_ranks() -> None:
    class Taker(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + fetch("absent")

    program = NAMED["GPipe"].program("GPipe", 2, 2, 1)

    def run(rank: int) -> str:
        module = Part(0, 1) if rank == 0 else Taker()
        pipe = Pipeline(program, [PipelineStage(module, rank, 2)], loss_fn=F.mse_loss)
        with pytest.raises(ScheduleError) as caught:
            pipe.step(*((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(Y) if rank else None)
        return str(caught.value)

    for said in run_threads(run, 2):
        assert said.startswith(
            "stage 1 on rank 1 cannot run: ScheduleError: fetch('absent'): no earlier stage"
        )


def test_a_program_with_transfers_must_have_those_of_the_skips() -> None:
    program = lower(NAMED["GPipe"].program("GPipe", 3, 2, 1))

    def run(rank: int) -> None:
        pipe = Pipeline(program, [PipelineStage(Named(rank, 3), rank, 3)], loss_fn=F.mse_loss)
        with pytest.raises(
            ScheduleError, match=r"sends skip values \{\}, and stages stash and fetch \{0: \(1, 2\)"
        ):
            pipe.step(*((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(Y) if rank == 2 else None)
        written = lower(NAMED["GPipe"].program("GPipe", 3, 2, 1), skips={0: (1, 2), 1: (2,)})
        good = Program.from_text(written.to_text())
        Pipeline(good, list(pipe.stages.values()), loss_fn=F.mse_loss).step(
            *((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(Y) if rank == 2 else None
        )

    run_threads(run, 3)
