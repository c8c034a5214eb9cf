"""Schedules run on stages: losses and gradients are those of the unsplit model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import rank, run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Pipeline, PipelineStage, Program, Tied
from shardwise.pipelining.schedule.interleaved import (
    interleaved_one_forward_one_backward,
    interleaved_zero_bubble,
    looped_bfs,
)
from shardwise.pipelining.schedule.single import gpipe, one_forward_one_backward, zb_h1, zb_h2
from shardwise.pipelining.schedule.vee import dual_pipe_v, zbv
from shardwise.tensor import Tensor

WIDTH, ROWS = 6, 13
X = np.random.default_rng(0).standard_normal((ROWS, WIDTH))
Y = np.random.default_rng(1).standard_normal((ROWS, WIDTH))

SCHEDULES: dict[str, Callable[[int], Program]] = {
    "GPipe": lambda p: gpipe(p, 4),
    "1F1B": lambda p: one_forward_one_backward(p, 5),
    "ZB-H1": lambda p: zb_h1(p, 4),
    "ZB-H2": lambda p: zb_h2(p, 5),
    "Interleaved1F1B": lambda p: interleaved_one_forward_one_backward(p, 2 * p, 2),
    "InterleavedZeroBubble": lambda p: interleaved_zero_bubble(p, 2 * p, 2),
    "LoopedBFS": lambda p: looped_bfs(p, 3, 2),
    "ZBV": lambda p: zbv(p, 5),
    "DualPipeV": lambda p: dual_pipe_v(p, 2 * p),
}


class Block(nn.Module):
    """A residual block with two values through it, dropout and a bias that does not learn."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Dropout(0.3)
        rng = np.random.default_rng(seed)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape) / 3
        self.linear.bias.requires_grad_(False)

    def forward(self, x: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y = self.norm(x + self.dropout(self.linear(x).tanh()))
        return y, (x * 0.5 if other is None else other + y * 0.1)


class Model(nn.Module):
    """Blocks one behind the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(i) for i in range(count)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values: tuple[Tensor, ...] = (x,)
        for block in self.blocks:
            values = block(*values)
        return values[0], values[1]


class Part(nn.Module):
    """One block under the name that it has in the model."""

    def __init__(self, model: Model, index: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({str(index): model.blocks[index]})
        self.index = index

    def forward(self, *values: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.blocks[str(self.index)](*values)
        return found


def loss_of(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.mse_loss(output[0], target) + (output[1] * output[1]).mean()


def unsplit(count: int, steps: int) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """The gradients of a model in one piece, added up over some steps, and its results at the end."""
    sw.manual_seed(7)
    model = Model(count)
    for _ in range(steps):
        output = model(sw.tensor(X))
        loss_of(output, sw.tensor(Y)).backward()
    gradients = [[None if p.grad is None else p.grad.numpy() for p in b.parameters()] for b in model.blocks]
    return gradients, output[0].detach().numpy()


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_gradients_are_those_of_the_unsplit_model(name: str, p: int) -> None:
    program = SCHEDULES[name](p)
    wanted, result = unsplit(program.stages, 2)

    def run(rank: int) -> None:
        sw.manual_seed(7)
        model = Model(program.stages)
        here = [s for s, owner in program.placement.items() if owner == rank]
        stages = [PipelineStage(Part(model, s), s, program.stages) for s in here]
        pipe = Pipeline(program, stages, loss_fn=loss_of)
        losses: list[Tensor] = []
        for _ in range(2):
            output = pipe.step(
                *((sw.tensor(X),) if pipe.has_first else ()),
                target=sw.tensor(Y) if pipe.has_last else None,
                losses=losses,
                return_outputs=True,
            )
        for stage in stages:
            assert not stage.live
            for parameter, gradient in zip(
                stage.submodule.parameters(), wanted[stage.stage_index], strict=True
            ):
                if gradient is None:
                    assert parameter.grad is None
                else:
                    np.testing.assert_allclose(parameter.grad.numpy(), gradient, rtol=1e-12, atol=1e-13)
        if pipe.has_last:
            np.testing.assert_allclose(output[0].detach().numpy(), result, rtol=1e-13, atol=1e-14)
            assert len(losses) == program.microbatches

    run_threads(run, p)


def test_evaluation_records_nothing_and_draws_nothing() -> None:
    program = one_forward_one_backward(2, 3)
    model = Model(2).eval()
    wanted = model(sw.tensor(X))[0].detach().numpy()

    def run(rank: int) -> None:
        stage = PipelineStage(Part(Model(2).eval(), rank), rank, 2)
        pipe = Pipeline(program, [stage], loss_fn=loss_of)
        out = pipe.eval(*((sw.tensor(X),) if rank == 0 else ()))
        assert not stage.live
        if rank == 1:
            np.testing.assert_allclose(out[0].numpy(), wanted, rtol=1e-13)
            assert not out[0].requires_grad

    run_threads(run, 2)


@pytest.mark.parametrize("p", [2, 3])
def test_batches_of_other_sizes(p: int) -> None:
    """Only the first rank sees that a batch is larger; all agree again, and once more where it was before."""
    sizes = (ROWS, 7, ROWS, 7, 9)
    model = Model(p).eval()
    for size in sizes:
        loss_of(model(sw.tensor(X[:size])), sw.tensor(Y[:size])).backward()
    wanted = [[None if q.grad is None else q.grad.numpy() for q in b.parameters()] for b in model.blocks]

    def run(rank: int) -> None:
        stage = PipelineStage(Part(Model(p).eval(), rank), rank, p)
        pipe = Pipeline(one_forward_one_backward(p, 3), [stage], loss_fn=loss_of)
        for size in sizes:
            pipe.step(
                *((sw.tensor(X[:size]),) if pipe.has_first else ()),
                target=sw.tensor(Y[:size]) if pipe.has_last else None,
            )
        for parameter, gradient in zip(stage.submodule.parameters(), wanted[rank], strict=True):
            if gradient is not None:
                np.testing.assert_allclose(parameter.grad.numpy(), gradient, rtol=1e-12, atol=1e-13)

    run_threads(run, p)


def test_halves_are_the_whole_bit_for_bit() -> None:
    gradients = []
    for program in (gpipe(2, 4), zb_h1(2, 4)):

        def run(rank: int, program: Program = program) -> list[Any]:
            sw.manual_seed(3)
            stage = PipelineStage(Part(Model(2), rank), rank, 2)
            pipe = Pipeline(program, [stage], loss_fn=loss_of)
            pipe.step(*((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(Y) if rank else None)
            return [p.grad.numpy() for p in stage.submodule.parameters() if p.grad is not None]

        gradients.append(run_threads(run, 2))
    for whole, halves in zip(*gradients, strict=True):
        for a, b in zip(whole, halves, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "p"),
    [
        ("1F1B", 2),
        ("1F1B", 3),
        ("InterleavedZeroBubble", 1),
        ("InterleavedZeroBubble", 2),
        ("ZBV", 1),
        ("ZBV", 3),
    ],
)
def test_checkpoints_and_tied_parameters(name: str, p: int) -> None:
    """The first and the last stage share a matrix; every stage keeps its inputs only."""
    program = SCHEDULES[name](p)
    count = program.stages

    class First(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight).tanh()

    class Last(First):
        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T

    def parts(seeds: tuple[int, int]) -> list[nn.Module]:
        middle: list[nn.Module] = []
        for i in range(count - 2):
            linear = nn.Linear(WIDTH, WIDTH)
            linear.weight.data = np.random.default_rng(10 + i).standard_normal((WIDTH, WIDTH))
            linear.bias.data = np.zeros(WIDTH)
            middle.append(linear)
        return [First(seeds[0]), *middle, Last(seeds[1])]

    whole = parts((5, 5))
    whole[-1].weight = whole[0].weight
    for _ in range(2):
        x = sw.tensor(X)
        for module in whole:
            x = module(x)
        F.mse_loss(x, sw.tensor(Y)).backward()

    def run(rank: int) -> None:
        modules = parts((5, 6))  # other values in the last stage, which the first one's replace
        here = [s for s, owner in program.placement.items() if owner == rank]
        stages = [PipelineStage(modules[s], s, count, checkpoint=True) for s in here]
        pipe = Pipeline(
            program, stages, loss_fn=F.mse_loss, tied=[Tied(((0, "weight"), (count - 1, "weight")))]
        )
        for _ in range(2):
            pipe.step(
                *((sw.tensor(X),) if pipe.has_first else ()), target=sw.tensor(Y) if pipe.has_last else None
            )
        for stage in stages:
            for mine, wanted in zip(
                stage.submodule.parameters(), whole[stage.stage_index].parameters(), strict=True
            ):
                np.testing.assert_allclose(mine.grad.numpy(), wanted.grad.numpy(), rtol=1e-12, atol=1e-13)

    run_threads(run, p)


def test_a_wrong_map_of_stages_is_refused() -> None:
    def run(place: int) -> None:
        stage = PipelineStage(Part(Model(2), 0), 0, 2)
        Pipeline(gpipe(2, 2), [stage], loss_fn=loss_of)

    with pytest.raises(
        ScheduleError, match=r"rank 1: the program puts stages \[1\] of 2 here, and got \[\(0, 2\)\]"
    ):
        run_threads(run, 2)


def test_a_batch_too_small_names_the_argument() -> None:
    stage = PipelineStage(Part(Model(1), 0), 0, 1)
    pipe = Pipeline(gpipe(1, 20), [stage], loss_fn=loss_of)
    with pytest.raises(
        ScheduleError, match="argument 0 has 13 rows along dim 0, and 20 microbatches need one each"
    ):
        pipe.step(sw.tensor(X), target=sw.tensor(Y))


def test_a_step_without_a_target_says_so() -> None:
    pipe = Pipeline(gpipe(1, 2), [PipelineStage(Part(Model(1), 0), 0, 1)], loss_fn=loss_of)
    with pytest.raises(
        ScheduleError, match="needs loss_fn= of the pipeline and target= on the rank of the last"
    ):
        pipe.step(sw.tensor(X))


def test_a_stage_that_raises_stops_the_others() -> None:
    class Bad(nn.Module):
        def forward(self, *values: Tensor) -> Tensor:
            raise RuntimeError(f"no on rank {rank()}")

    def run(place: int) -> None:
        module = Part(Model(2), 0) if place == 0 else Bad()
        pipe = Pipeline(gpipe(2, 2), [PipelineStage(module, place, 2)], loss_fn=loss_of)
        pipe.step(*((sw.tensor(X),) if place == 0 else ()), target=sw.tensor(Y) if place else None)

    with pytest.raises(ScheduleError, match="stage 1 on rank 1 cannot run: RuntimeError: no on rank 1"):
        run_threads(run, 2)


def test_what_cannot_end_is_refused_before_it_runs() -> None:
    with pytest.raises(ScheduleError, match="V6 rank 0, place 1"):
        Pipeline(Program.from_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"), [])
