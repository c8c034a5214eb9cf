"""Backward in two halves: the bits of the whole, and nothing kept between them but for the second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.collectives import run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Pipeline, PipelineStage, Program, get_schedule_class
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor
from shardwise.tensor.autograd import backward, backward_inputs

ROWS, WIDTH, WIDE = 6, 4, 10


class Attention(nn.Module):
    """A transformer's block: attention, norms with weights, GELU, residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)
        self.scale = nn.Parameter(np.linspace(0.5, 1.5, WIDTH))
        rng = np.random.default_rng(0)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.first(x)).reshape(2, -1, 3, WIDTH).permute(2, 0, 1, 3).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(-1, WIDTH))
        return x + self.down(F.gelu(self.up(self.second(x)))) * self.scale.exp()


class Pair(nn.Module):
    """Two linear layers, the second transposed by an op on its weight, and weights that are normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(np.random.default_rng(1).standard_normal((WIDTH, WIDE)))
        self.b = nn.Parameter(np.random.default_rng(2).standard_normal((WIDTH, WIDE)))

    def forward(self, x: Tensor) -> Tensor:
        a = self.a / (self.a * self.a).sum(0).sqrt()
        return (x @ a).tanh() @ self.b.T


def whole_and_halves(make: Any) -> tuple[list[Any], list[Any]]:
    """All gradients, inputs' first, of a backward at once and of one in halves, both run twice."""
    x0 = np.random.default_rng(3).standard_normal((ROWS, WIDTH))
    g = np.random.default_rng(4).standard_normal((ROWS, WIDTH))
    found = []
    for halves in (False, True):
        module = make()
        inputs = []
        for _ in range(2):
            x = sw.tensor(x0, requires_grad=True)
            y = module(x)
            if halves:
                (dx,), rest = backward_inputs([y], [g], [x])
                assert all(p.grad is None for p in module.parameters()) or inputs
                rest.run()
                inputs.append(dx.numpy())
            else:
                backward([y], [g])
                inputs.append(x.grad.numpy())
        found.append([*inputs, *(p.grad.numpy() for p in module.parameters())])
    return found[0], found[1]


@pytest.mark.parametrize("make", [Attention, Pair])
def test_halves_have_the_bits_of_the_whole(make: Any) -> None:
    whole, halves = whole_and_halves(make)
    for a, b in zip(whole, halves, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("p", [2, 3])
def test_programs_in_halves_have_the_bits_of_those_without(p: int) -> None:
    x, y = (np.random.default_rng(s).standard_normal((4 * ROWS, WIDTH)) for s in (5, 6))
    found = []
    for name in ("GPipe", "1F1B", "ZBH1", "ZBH2"):
        program = NAMED[name].program(name, p, 4, 1)

        def run(rank: int, program: Any = program) -> list[Any]:
            stage = PipelineStage(Attention(), rank, p)
            pipe = Pipeline(program, [stage], loss_fn=F.mse_loss)
            pipe.step(*((sw.tensor(x),) if rank == 0 else ()), target=sw.tensor(y) if rank == p - 1 else None)
            return [q.grad.numpy() for q in stage.submodule.parameters()]

        found.append(run_threads(run, p))
    for other in found[1:]:
        for mine, wanted in zip(other, found[0], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(mine, wanted, strict=True))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).tanh()).sin()


def test_what_is_kept_between_the_halves_is_counted() -> None:
    """Of each linear layer its input and the gradient of its result: nothing of tanh and sin, no weights."""
    module = Layers()
    x = sw.tensor(np.ones((ROWS, WIDTH), np.float32), requires_grad=True)
    y = module(x)
    _, rest = backward_inputs([y], [np.ones((ROWS, WIDTH), np.float32)], [x])
    kept = sorted([array.shape for array in rest.kept])
    assert kept == sorted([(ROWS, WIDTH), (ROWS, WIDE), (ROWS, WIDE), (ROWS, WIDTH)])
    assert sum(array.nbytes for array in rest.kept) == 4 * 2 * ROWS * (WIDTH + WIDE)
    rest.run()
    assert rest.kept == ()


def test_nothing_is_kept_where_nothing_learns() -> None:
    module = Layers()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    x = sw.tensor(np.ones((ROWS, WIDTH), np.float32), requires_grad=True)
    _, rest = backward_inputs([module(x)], [np.ones((ROWS, WIDTH), np.float32)], [x])
    assert rest.kept == ()
    rest.run()


@pytest.mark.parametrize("name", ["1F1B", "ZBVZeroBubble", "InterleavedZeroBubble"])
def test_a_checkpointed_forward_runs_twice_and_no_more(name: str) -> None:
    runs: list[tuple[int, int]] = []

    class Counted(Attention):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

        def forward(self, x: Tensor) -> Tensor:
            if x.device.type == "cpu":
                runs.append((self.index, x.shape[0]))
            return super().forward(x)

    x, y = (np.random.default_rng(s).standard_normal((4 * ROWS, WIDTH)) for s in (7, 8))

    def run(rank: int) -> None:
        on_paper = get_schedule_class(name)(2, 4)
        stages = [
            PipelineStage(Counted(s), s, on_paper.n_stages, checkpoint=True) for s in on_paper.stages_of(rank)
        ]
        schedule = get_schedule_class(name)(stages, 4, F.mse_loss)
        first, last = (any(getattr(s, end) for s in stages) for end in ("is_first", "is_last"))
        schedule.step(*((sw.tensor(x),) if first else ()), target=sw.tensor(y) if last else None)

    run_threads(run, 2)
    count = get_schedule_class(name)(2, 4).n_stages
    assert sorted(runs) == sorted([(s, ROWS) for s in range(count)] * 4 * 2)


def test_recomputation_where_the_program_says() -> None:
    """R runs the forward again before the backward asks; the result is the same."""
    x, y = (np.random.default_rng(s).standard_normal((2 * ROWS, WIDTH)) for s in (9, 10))
    found = []
    for text in ("0F0,0F1,0B0,0B1", "0F0,0F1,0R0,0I0,0R1,0I1,0W0,0W1"):
        stage = PipelineStage(Attention(), 0, 1, checkpoint=True)
        pipe = Pipeline(Program.from_text(text), [stage], loss_fn=F.mse_loss)
        pipe.step(sw.tensor(x), target=sw.tensor(y))
        found.append([q.grad.numpy() for q in stage.submodule.parameters()])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
