"""A model that is split is the model: results, gradients, buffers, names, whatever it does on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.collectives import run_threads
from shardwise.pipelining import Pipe, get_schedule_class, pipeline
from shardwise.tensor import Tensor, tree_leaves
from split_models import CASES, ROWS, fixed

CLOSE = 1e-12


def split(name: str, rows: int = ROWS) -> Pipe:
    case = CASES[name]
    return pipeline(fixed(case.make()), case.args(rows), case.kwargs(rows), case.spec)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", CASES)
def test_stages_are_the_model(name: str, mode: str) -> None:
    """One rank, other rows than it was traced with, training and not."""
    case = CASES[name]
    pipe = split(name)
    assert pipe.num_stages == 1 + (len(case.spec) if case.spec else {"recurrent": 1}.get(name, 2))
    for module in (pipe.model, *map(pipe.get_stage_module, range(pipe.num_stages))):
        module.train(mode == "train")
    for rows in (ROWS, 3):
        pipe.check(*case.args(rows), rtol=CLOSE, **case.kwargs(rows))


@pytest.mark.parametrize("name", CASES)
def test_names_are_those_of_the_model(name: str) -> None:
    pipe = split(name)
    state = dict(pipe.model.named_parameters()) | dict(pipe.model.named_buffers())
    found: dict[str, Tensor] = {}
    for i in range(pipe.num_stages):
        stage = pipe.get_stage_module(i)
        here = dict(stage.named_parameters()) | dict(stage.named_buffers())
        assert set(here) <= set(pipe.model.state_dict())
        assert set(stage.state_dict()) == set(here)
        found |= here
    assert {id(each) for each in found.values()} == {id(each) for each in state.values()}
    shared = [name for tied in pipe.tied for _, name in tied.places]
    assert shared == {
        "tied": ["embedding.weight"] * 3 + ["head.weight"],
        "twice": [f"shared.0.{n}" for n in ("weight", "bias") for _ in range(3)],
        "contexts": [f"blocks.1.0.{n}" for n in ("weight", "bias") for _ in range(2)],
    }.get(name, [])


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_done_to_the_model(name: str) -> None:
    case = CASES[name]
    model = fixed(case.make())
    before = {key: each.numpy().copy() for key, each in model.state_dict().items()}
    attributes = {id(module): set(vars(module)) for module in model.modules()}
    sw.manual_seed(5)
    expected = sw.rand(2).tolist()
    sw.manual_seed(5)
    pipe = pipeline(model, case.args(ROWS), case.kwargs(ROWS), case.spec)
    pipe.get_stage_module(0)
    assert sw.rand(2).tolist() == expected
    for key, each in model.state_dict().items():
        np.testing.assert_array_equal(each.numpy(), before[key])
    assert {id(module): set(vars(module)) for module in model.modules()} == attributes


def loss_of(output: Any, target: Tensor) -> Tensor:
    """A loss that every floating result has a part in, and that weighs rows by the target."""
    total: Any = 0.0
    for leaf in tree_leaves(output):
        if leaf.requires_grad or leaf.dtype.kind == "f":
            total = total + (leaf.reshape(-1) * leaf.reshape(-1)).mean() * target.mean()
    return total  # type: ignore[no-any-return]


def one_rank(
    name: str, sizes: list[int], batch: tuple[Any, Any, Tensor]
) -> tuple[list[float], dict[str, Any]]:
    """Losses of microbatches and gradients of the model in one piece."""
    args, kwargs, target = batch
    model = fixed(CASES[name].make())
    losses, start = [], 0
    for size in sizes:
        rows = slice(start, start + size)
        cut = [arg[rows] if isinstance(arg, Tensor) else arg for arg in args]
        loss = loss_of(model(*cut, **{k: v[rows] for k, v in kwargs.items()}), target[rows])
        (loss * (size / sum(sizes))).backward()
        losses.append(loss.item())
        start += size
    return losses, {
        **{n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None},
        **{n: b.numpy() for n, b in model.named_buffers()},
    }


# Dropout under microbatches is tried in test_pipeline: here each model runs its microbatches one by one.
STILL = [
    name for name in CASES if name not in ("mlp", "gpt", "inside a block", "twice", "encoder", "contexts")
]
RUNS = [(name, "1F1B", 3 if name in ("outputs", "in place") else 2) for name in STILL] + [
    ("unet", "GPipe", 4), ("unet", "ZBH1", 4), ("tied", "Interleaved1F1B", 2), ("tied", "ZBVZeroBubble", 2),
    ("in place", "ZBH1", 3), ("outputs", "ZBH1", 3), ("rotary", "1F1B", 3), ("convolutions", "LoopedBFS", 2),
    ("frozen", "InterleavedZeroBubble", 2), ("unet", "DualPipeV", 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schedule", "ranks"), RUNS)
def test_schedules_run_split_models(name: str, schedule: str, ranks: int) -> None:
    """On threads: uneven microbatches, two batches of different sizes; losses and gradients of one rank."""
    case = CASES[name]
    kind = get_schedule_class(schedule)
    count = pipeline(fixed(case.make()), case.args(2), case.kwargs(2), case.spec).num_stages
    per_rank = kind.default_stages_per_rank
    spec = case.spec
    if spec is not None:
        assert ranks * per_rank <= count
        spec = dict(list(spec.items())[: ranks * per_rank - 1])
    microbatches = 4
    sizes = [2, 2, 1, 1]
    batch = (case.args(6), case.kwargs(6), sw.tensor(np.linspace(0.5, 1.5, 6)))
    losses, wanted = one_rank(name, sizes, batch)

    def run(rank: int) -> None:
        pipe = pipeline(fixed(case.make()), case.args(2), case.kwargs(2), spec)
        here = kind(ranks, microbatches).stages_of(rank)
        stages = [pipe.build_stage(i) for i in here]
        runner = kind(stages, microbatches, loss_fn=loss_of, tied=pipe.tied)
        args, kwargs, target = batch
        found: list[Tensor] = []
        runner.step(
            *(args if 0 in here else ()), target=target if pipe.num_stages - 1 in here else None,
            losses=found, **kwargs,
        )  # fmt: skip
        if pipe.num_stages - 1 in here:
            np.testing.assert_allclose([each.item() for each in found], losses, rtol=CLOSE)
        for stage in stages:
            module = stage.submodule
            mine = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
            assert set(mine) <= {*wanted, "head.weight"}
            for key, gradient in mine.items():
                known = wanted["embedding.weight" if key == "head.weight" and name == "tied" else key]
                scale = np.abs(known).max()
                np.testing.assert_allclose(gradient.numpy(), known, rtol=CLOSE, atol=CLOSE * scale)
            for key, buffer in module.named_buffers():
                np.testing.assert_allclose(buffer.numpy(), wanted[key], rtol=CLOSE)

    run_threads(run, ranks)
