"""Random models, cut at random: what a stage passes over, receives and sends is always enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import AutogradError
from shardwise.collectives import run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Schedule1F1B, pipe_split, pipeline
from shardwise.tensor import Tensor
from split_models import fixed, normal

WIDTH = 4
Code = tuple[Any, ...]


class Random(nn.Module):
    """Runs a program over a growing list of tensors; parts of it in modules of its own.

    Instructions: ``(name, a, b)`` reads the tensors a and b, counted from the end, and appends a result.
    """

    def __init__(self, program: tuple[Code, ...], layers: nn.ModuleList) -> None:
        super().__init__()
        self.program, self.layers = program, layers
        self.inner = nn.ModuleList([Random(code[1], layers) for code in program if code[0] == "module"])
        self.scale = nn.Parameter(sw.ones(WIDTH))
        self.register_buffer("table", normal(2, WIDTH, seed=4))

    def forward(self, *values: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
        pool, inner = list(values), iter(self.inner)
        for name, *operands in self.program:
            if name == "cut":
                pipe_split()
                continue
            if name == "module":
                pool += next(inner)(*pool[-2:], keep=keep)
                continue
            a, b = (pool[-1 - n % len(pool)] for n in operands)
            pool += self.run(name, a, b, operands[0], keep)
        return tuple(pool[-3:])

    def run(self, name: str, a: Tensor, b: Tensor, number: int, keep: Tensor) -> list[Tensor]:
        match name:
            case "layer":
                return [self.layers[number % len(self.layers)](a)]
            case "add":
                return [a + b * 0.5]
            case "own":
                return [(a * self.scale).tanh()]
            case "buffer":
                return [a + self.table[number % 2].cos()]
            case "constant":
                return [a * sw.arange(1, WIDTH + 1, device=a.device) + a.shape[0]]
            case "keyword":
                return [sw.where(keep[:, None], a, b)]
            case "mask":
                mask = keep.astype(a.dtype) * 2.0
                mask[0] = 0.5
                return [mask[:, None] + a * 0.0, a * mask[:, None]]
            case "detached":
                return [a.detach() * b]
            case "alias":
                return [a.detach()]
            case "dropout":
                return [F.dropout(a, 0.4, self.training)]
            case "write":
                fresh = a.clone()
                fresh.mul_(0.5)
                return [fresh]
            case "write later":
                a.add_(b.tanh())
                return []
            case "assign":
                fresh = a * 1.0
                fresh[:, 0] = b[:, 1]
                return [fresh]
            case "halves":
                left, right = a.chunk(2, 1)
                return [sw.cat([right, left], 1), left.repeat(1, 2)]
            case "whole":
                return [(a > 0).astype(a.dtype) * b]
        raise AssertionError(name)


NAMES = (
    "layer", "layer", "add", "own", "buffer", "constant", "keyword", "mask", "detached", "alias", "dropout",
    "write", "write later", "assign", "halves", "whole",
)  # fmt: skip
INSTRUCTION = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 6), st.integers(0, 6)), st.just(("cut",))
)
PROGRAM = st.lists(INSTRUCTION, min_size=1, max_size=8).map(tuple)
NESTED = st.lists(st.one_of(INSTRUCTION, st.tuples(st.just("module"), PROGRAM)), min_size=2, max_size=9)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(NESTED.map(tuple), st.booleans())
def test_random_models_in_stages(program: tuple[Code, ...], training: bool) -> None:
    model = fixed(Random(program, nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])))
    model.train(training)

    def arguments(rows: int) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        keep = sw.tensor(np.random.default_rng(rows).random(rows) < 0.5)
        return (normal(rows, WIDTH), normal(rows, WIDTH, seed=1)), {"keep": keep}

    args, kwargs = arguments(3)
    try:  # the model itself may write where it must not
        results = model(*args, **kwargs)
        total = sum((each.sum() for each in results if each.requires_grad), sw.zeros(()))
        if total.requires_grad:
            total.backward()
    except AutogradError:
        assume(False)
    model.zero_grad()
    args, kwargs = arguments(3)
    pipe = pipeline(model, args, kwargs)
    for rows in (3, 5):
        args, kwargs = arguments(rows)
        pipe.check(*args, rtol=1e-12, **kwargs)


class Careful(Random):
    """Does not write into what it is given: microbatches are parts of one batch, and share its versions."""

    def forward(self, *values: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
        return super().forward(*(each * 1.0 for each in values), keep=keep)


def loss_fn(results: tuple[Tensor, ...], target: Tensor) -> Tensor:
    total = sw.zeros((), dtype=np.float64)
    for each in results:
        total = total + (each * each).sum() * target.mean()
    return total


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(NESTED.map(tuple))
def test_random_models_on_ranks(program: tuple[Code, ...]) -> None:
    """A stage per rank, microbatches of two sizes: what is put aside and fetched finds its way."""

    def made() -> nn.Module:
        model = fixed(Careful(program, nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])))
        return model.eval()

    keep = sw.tensor(np.random.default_rng(0).random(5) < 0.5)
    target = sw.tensor(np.linspace(0.5, 1.5, 5))

    def inputs() -> tuple[Tensor, Tensor]:
        return normal(5, WIDTH), normal(5, WIDTH, seed=1)

    stages = pipeline(made(), tuple(x[:2] for x in inputs()), {"keep": keep[:2]}).num_stages
    assume(2 <= stages <= 4)
    model = made()
    try:
        for rows in (slice(0, 3), slice(3, 5)):
            loss = loss_fn(model(*(x[rows] for x in inputs()), keep=keep[rows]), target[rows])
            assume(loss.requires_grad)
            (loss * (len(target[rows]) / 5)).backward()
    except AutogradError:
        assume(False)
    wanted = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}

    def run(rank: int) -> dict[str, Any]:
        pipe = pipeline(made(), tuple(x[:2] for x in inputs()), {"keep": keep[:2]})
        stage = pipe.build_stage(rank)
        schedule = Schedule1F1B(stage, 2, loss_fn, tied=pipe.tied)
        last = rank == stages - 1
        schedule.step(*(inputs() if rank == 0 else ()), target=target if last else None, keep=keep)
        named = stage.submodule.named_parameters()
        return {name: p.grad.numpy() for name, p in named if p.grad is not None}

    for found in run_threads(run, stages):
        for name, gradient in found.items():
            known = wanted.get(name, np.zeros_like(gradient))  # of ties that no gradient reaches: zeros
            np.testing.assert_allclose(gradient, known, rtol=1e-11, atol=1e-11 * np.abs(known).max())
