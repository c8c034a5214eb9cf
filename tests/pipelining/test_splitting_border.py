"""Where models are cut, what crosses there, what is refused, and with which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from gpt import GPT
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import run_threads
from shardwise.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from shardwise.pipelining import (
    Schedule1F1B,
    SplitPoint,
    annotate_split_points,
    pipe_split,
    pipeline,
)
from shardwise.tensor import Tensor, recompute
from split_models import CASES, fixed, modules, normal, row

BEGINNING, END = SplitPoint.BEGINNING, SplitPoint.END


# ---- cuts


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, [("0", "1", "2", "3")]),
        ({"0": BEGINNING}, [("0", "1", "2", "3")]),  # nothing in front
        ({"3": END}, [("0", "1", "2", "3")]),  # nothing behind
        ({"1": END, "2": BEGINNING}, [("0", "1"), ("2", "3")]),  # one place
        ({"2": BEGINNING, "0": END}, [("0",), ("1",), ("2", "3")]),  # in any order
    ],
)
def test_cuts_by_names(spec: dict[str, SplitPoint], wanted: list[tuple[str, ...]]) -> None:
    pipe = pipeline(row(4), (normal(3, 4),), split_spec=spec)
    assert modules(pipe) == wanted
    pipe.check(normal(3, 4), rtol=1e-12)


def test_markers_and_names_together() -> None:
    model = row(4)
    annotate_split_points(model, {"1": BEGINNING, "2": END})
    assert modules(pipeline(model, (normal(3, 4),))) == [("0",), ("1", "2"), ("3",)]
    both = pipeline(model, (normal(3, 4),), split_spec={"2": BEGINNING})
    assert modules(both) == [("0",), ("1",), ("2",), ("3",)]
    both.check(normal(5, 4), rtol=1e-12)
    with pytest.raises(ScheduleError, match=r"calls pipe_split\(\) 0 times, and 2 split points are noted"):
        pipeline(model, (normal(3, 4),), num_stages=2)
    np.testing.assert_array_equal(  # markers do nothing elsewhere
        model(normal(3, 4)).detach().numpy(), row(4)(normal(3, 4)).detach().numpy()
    )


class Asks(nn.Module):
    """Does what it is told with what a layer gives."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.a, self.b, self.what = nn.Linear(4, 4), nn.Linear(4, 4), what

    def forward(self, x: Tensor) -> Any:
        y = self.a(x)
        if self.what == "condition" and y.sum() > 0:
            y = -y
        if self.what == "number":
            y = y * float(y.max())
        if self.what == "recompute":
            return recompute(self.tail, y)
        if self.what == "twice":
            y = self.b(y)
        return self.b(y)

    def tail(self, y: Tensor) -> Tensor:
        y = y.sin()
        pipe_split()
        return self.b(y)


@pytest.mark.parametrize(
    ("what", "spec", "message"),
    [
        (
            "condition", None,
            r"cannot split Asks: what it does depends on values, and it is split before there are any\. "
            r".*at .*test_splitting_border\.py:{condition} depends on the data",
        ),
        ("number", None, r"at .*test_splitting_border\.py:{number} depends on the data"),
        ("recompute", None, r"cut pipe_split\(\) number 0, which lies inside of recompute\(\); cut outside"),
        ("twice", {"b": BEGINNING}, r"names 'b', which the model calls 2 times; wanted once"),
        ("", {"c": BEGINNING}, r"split_spec names 'c', and Asks has no such submodule; it has a, b"),
        ("", {"a": "front"}, r"split_spec\['a'\] is 'front'; wanted SplitPoint.BEGINNING or SplitPoint.END"),
    ],
)  # fmt: skip
def test_what_cannot_be_split(what: str, spec: Any, message: str) -> None:
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    numbers = {
        "condition": next(i for i, line in enumerate(lines, 1) if "and y.sum() > 0" in line),
        "number": next(i for i, line in enumerate(lines, 1) if "float(y.max())" in line),
    }
    for name, number in numbers.items():
        message = message.replace("{" + name + "}", str(number))
    with pytest.raises(ScheduleError) as caught:
        pipeline(fixed(Asks(what)), (normal(3, 4),), split_spec=spec)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_arguments_that_are_refused() -> None:
    model = row(3)
    with pytest.raises(ScheduleError, match="mb_args must be a tuple of positional arguments, got a Tensor"):
        pipeline(model, normal(3, 4))  # type: ignore[arg-type]  # which is what is tried
    with pytest.raises(ScheduleError, match="give split_spec= or num_stages=, not both"):
        pipeline(model, (normal(3, 4),), split_spec={"1": BEGINNING}, num_stages=2)
    with pytest.raises(ScheduleError, match=r"cannot cut the model into 4 stages: its modules give 3 units"):
        pipeline(model, (normal(3, 4),), num_stages=4)
    with pytest.raises(ScheduleError, match="a set cannot be an argument of a split model"):
        pipeline(model, ({1, 2},))
    pipe = pipeline(model, (normal(3, 4),), num_stages=2)
    with pytest.raises(ScheduleError, match="there is no stage 2 among 2"):
        pipe.build_stage(2)
    with pytest.raises(
        ScheduleError, match="stage 1 takes what stage 0 gives, and got Tensor; arguments of the"
    ):
        pipe.get_stage_module(1)(normal(3, 4))


def test_a_keyword_that_a_rank_lacks() -> None:
    case = CASES["rotary"]
    pipe = pipeline(fixed(case.make()), case.args(2), case.kwargs(2), case.spec)
    assert [stage.keywords for stage in pipe.info().stages] == [("keep",)] * 3
    first = pipe.get_stage_module(0)(*case.args(2), **case.kwargs(2))
    with pytest.raises(
        ScheduleError,
        match=r"stage 1 reads the keyword argument 'keep', at .*split_models.py:\d+; give it to step",
    ):
        pipe.get_stage_module(1)(first)
    with pytest.raises(
        ScheduleError, match=r"keyword arguments \['other'\] are given here and not on the rank"
    ):
        pipe.get_stage_module(1)(first, other=1)
    with pytest.raises(
        ScheduleError, match=r"'keep' has shape \(3, 6\) here and \(2, 6\) on the rank of the first"
    ):
        pipe.get_stage_module(1)(first, **case.kwargs(3))


def test_a_stage_that_is_changed_is_found_out() -> None:
    pipe = pipeline(row(3), (normal(3, 4),), num_stages=3)
    pipe.get_stage_module(1).get_submodule("1").register_forward_hook(lambda *_: None)
    pipe.check(normal(3, 4))
    pipe.get_stage_module(1).get_submodule("1").register_forward_hook(
        lambda module, args, output: output * 1.01
    )
    with pytest.raises(
        ScheduleError, match=r"the stages are not the model: wanted differences up to 1e-06, got"
    ):
        pipe.check(normal(3, 4))


# ---- what crosses, and what is made again


def test_tables_and_masks_are_not_sent() -> None:
    """Three tensors of a transformer's layers follow from keyword, buffer and shape alone."""
    case = CASES["rotary"]
    pipe = pipeline(fixed(case.make()), case.args(2), case.kwargs(2), case.spec)
    x = case.args(2)[0]
    assert [stage.received_bytes for stage in pipe.info().stages] == [
        0,
        2 * x.nbytes,
        2 * x.nbytes,
    ]  # x and x * cos
    assert ["table" in stage.state for stage in pipe.info().stages] == [True, True, False]
    assert not pipe.skips


def test_skips_go_straight() -> None:
    case = CASES["unet"]
    pipe = pipeline(fixed(case.make()), case.args(2), None, case.spec)
    assert [(skip.source, skip.users) for skip in pipe.skips] == [(0, (3,))]
    assert str(pipe.skips[0]) == "float64[2, 4, 8, 8] of stage 0, read by 3"


def test_ties_are_found() -> None:
    case = CASES["tied"]
    pipe = pipeline(fixed(case.make()), case.args(2), None, case.spec)
    (tied,) = pipe.tied
    assert tied.places == (
        (0, "embedding.weight"), (1, "embedding.weight"), (2, "embedding.weight"), (3, "head.weight")
    )  # fmt: skip
    assert "tied: embedding.weight in stage 0, embedding.weight in stage 1" in str(pipe)


def test_a_buffer_that_two_stages_write_is_refused() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.BatchNorm1d(4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.linear(self.norm(x)))

    model = fixed(Shared())
    with pytest.raises(ScheduleError, match=r"the buffer norm.running_mean is written .* stages \[0, 1\]"):
        pipeline(model, (normal(3, 4),), split_spec={"linear": BEGINNING})
    pipeline(model.eval(), (normal(3, 4),), split_spec={"linear": BEGINNING}).check(normal(5, 4))


def test_statistics_are_kept_by_their_own_stage() -> None:
    case = CASES["convolutions"]
    pipe = pipeline(fixed(case.make()), case.args(2), None, case.spec)
    found = [
        {name for name in stage.state if "running_mean" in name or "tracked" in name}
        for stage in pipe.info().stages
    ]
    first = {"features.1.running_mean", "features.1.num_batches_tracked"}
    second = {"features.4.running_mean", "features.4.num_batches_tracked"}
    assert found == [first, set(), second, set()]


# ---- printing


def test_a_pipe_prints() -> None:
    model = GPT(2, 8, 2, 7, 0.1)
    pipe = pipeline(
        model, (sw.tensor(np.zeros((2, 7), np.int64)),), {"target": sw.tensor(np.zeros((2, 7), np.int64))},
        {"blocks.1": BEGINNING},
    )  # fmt: skip
    assert str(pipe).splitlines()[0].split() == [
        "stage", "modules", "parameters", "activations", "forward", "in", "out", "keywords"
    ]  # fmt: skip
    assert "recent.0-3, dropout, blocks.0" in str(pipe)
    assert repr(pipe) == "Pipe(GPT, num_stages=2)"
    assert repr(pipe.get_stage_module(1)).startswith("StageModule(stage 1 of 2: blocks.1, norm, head; ")


# ---- run


def test_dropout_and_checkpoints_are_those_of_one_rank() -> None:
    """Threads; microbatches draw the bits that their rows have in the whole batch."""
    x, target = sw.tensor(np.arange(42).reshape(6, 7) % 11), sw.tensor(np.arange(42).reshape(6, 7) % 5)

    def made() -> nn.Module:
        return fixed(GPT(3, 8, 2, 7, 0.3))

    def loss_fn(output: Tensor, rows: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output.view(-1, 256), rows.view(-1))

    sw.manual_seed(4)
    model = made()
    for _ in range(2):
        loss_fn(model(x), target).backward()
    wanted = {name: p.grad.numpy() for name, p in model.named_parameters()}

    def run(rank: int) -> None:
        sw.manual_seed(4)
        pipe = pipeline(made(), (x[:2],), num_stages=3)
        stage = pipe.build_stage(rank, checkpoint=rank != 1)
        schedule = Schedule1F1B(stage, 4, loss_fn=loss_fn)
        for _ in range(2):
            schedule.step(*((x,) if rank == 0 else ()), target=target if rank == 2 else None)
        for name, p in stage.submodule.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), wanted[name], rtol=1e-11, atol=1e-13)
        stage.submodule.eval()
        out = schedule.eval(*((x,) if rank == 0 else ()))
        if rank == 2:
            np.testing.assert_allclose(out.numpy(), model.eval()(x).detach().numpy(), rtol=1e-12, atol=1e-13)

    run_threads(run, 3)


def test_stages_may_be_tensor_parallel() -> None:
    """Two stages on two ranks each, sharded behind the split."""
    x, target = sw.tensor(np.arange(42).reshape(6, 7) % 11), sw.tensor(np.arange(42).reshape(6, 7) % 5)

    def loss_fn(output: Tensor, rows: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output.view(-1, 256), rows.view(-1))

    model = fixed(GPT(2, 8, 2, 7, 0.0))
    loss_fn(model(x), target).backward()
    wanted = {name: p.grad.numpy() for name, p in model.named_parameters()}

    def run(rank: int) -> None:
        mesh = sw.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
        pipe = pipeline(fixed(GPT(2, 8, 2, 7, 0.0)), (x[:2],), split_spec={"blocks.1": BEGINNING})
        index = mesh["pp"].get_group().rank
        stage = pipe.build_stage(index, group=mesh["pp"].get_group())
        cut, add = ColwiseParallel(use_local_output=False), RowwiseParallel()
        block = stage.submodule.get_submodule(f"blocks.{index}")
        parallelize_module(block, mesh["tp"], {"qkv": cut, "proj": add, "up": cut, "down": add})
        schedule = Schedule1F1B(stage, 3, loss_fn)
        schedule.step(*((x,) if index == 0 else ()), target=target if index else None)
        for name, p in stage.submodule.named_parameters():
            grad = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
            np.testing.assert_allclose(grad.numpy(), wanted[name], rtol=1e-11, atol=1e-13)

    run_threads(run, 4)
