"""Schedules made of stages, with PyTorch's arguments, and programs from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import ScheduleError
from shardwise.collectives import get_group, run_threads
from shardwise.nn import functional as F
from shardwise.pipelining import Chunk, Fold, PipelineStage, Program, Replicate, Schedule, get_schedule_class
from shardwise.pipelining.schedules import SCHEDULES
from shardwise.tensor import Tensor

WIDTH, ROWS = 4, 24
X = np.random.default_rng(4).standard_normal((ROWS, WIDTH))
Y = np.random.default_rng(5).standard_normal((ROWS, WIDTH))


class Block(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        rng = np.random.default_rng(index)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape) / 2

    def forward(self, x: Tensor, shift: float = 0.0) -> Tensor:
        return self.linear(x).tanh() + shift


def unsplit(count: int, reduction: str = "mean") -> tuple[list[Any], Any, float]:
    blocks = [Block(i) for i in range(count)]
    x = sw.tensor(X)
    for block in blocks:
        x = block(x)
    loss = F.mse_loss(x, sw.tensor(Y))
    loss.backward()
    return [[p.grad.numpy() for p in block.parameters()] for block in blocks], x.detach().numpy(), float(loss)


def held(name: str, p: int, rank: int) -> list[PipelineStage]:
    """Stages of a rank, as a user would make them who asks the schedule where they belong."""
    on_paper = SCHEDULES[name](p, 2 * p)
    count = on_paper.n_stages
    return [PipelineStage(Block(s), s, count) for s in on_paper.stages_of(rank)]


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "ForwardOnly"])
def test_each_class_trains_as_the_unsplit_model(name: str, p: int) -> None:
    def run(rank: int) -> None:
        stages = held(name, p, rank)
        wanted, result, whole = unsplit(stages[0].num_stages)
        schedule = get_schedule_class(name)(stages if len(stages) > 1 else stages[0], 2 * p, F.mse_loss)
        args = (sw.tensor(X),) if any(s.is_first for s in stages) else ()
        has_last = any(s.is_last for s in stages)
        losses: list[Tensor] = []
        output = schedule.step(
            *args, target=sw.tensor(Y) if has_last else None, losses=losses, return_outputs=True
        )
        for stage in stages:
            for mine, other in zip(stage.submodule.parameters(), wanted[stage.stage_index], strict=True):
                np.testing.assert_allclose(mine.grad.numpy(), other, rtol=1e-12, atol=1e-14)
        if has_last and name != "DualPipe":
            np.testing.assert_allclose(output.numpy(), result, rtol=1e-13)
            assert abs(sum(map(float, losses)) / len(losses) - whole) < 1e-14
        if not has_last:
            assert output is None
            assert losses == []
        evaluated = schedule.eval(*args)
        if has_last and name != "DualPipe":
            np.testing.assert_allclose(evaluated.numpy(), result, rtol=1e-13)

    run_threads(run, p)


def test_forward_only_has_no_backward() -> None:
    def run(rank: int) -> None:
        stage = PipelineStage(Block(rank), rank, 2)
        schedule = get_schedule_class("ForwardOnly")(stage, 3)
        out = schedule.eval(*((sw.tensor(X),) if rank == 0 else ()))
        if rank == 1:
            np.testing.assert_allclose(out.numpy(), unsplit(2)[1], rtol=1e-13)

    run_threads(run, 2)


def one_step(make: Callable[[PipelineStage], Schedule], p: int = 2, **options: Any) -> list[Any]:
    """Gradients and outputs of one step on all ranks."""

    def run(rank: int) -> Any:
        stage = PipelineStage(Block(rank), rank, p)
        schedule = make(stage)
        out = schedule.step(
            *((sw.tensor(X),) if rank == 0 else ()),
            target=sw.tensor(Y) if rank == p - 1 else None,
            return_outputs=True,
            **options,
        )
        return [q.grad.numpy() for q in stage.submodule.parameters()], None if out is None else out

    return run_threads(run, p)


@pytest.mark.parametrize("format", ["compute_only", "compute_comms"])
def test_a_file_is_run_as_the_schedule_that_wrote_it(tmp_path: Path, format: Any) -> None:
    get_schedule_class("1F1B")(2, 4).to_csv(tmp_path / "program.csv", format)
    assert ("SEND" in (tmp_path / "program.csv").read_text()) == (format == "compute_comms")
    wanted = unsplit(2)[0]
    found = one_step(
        lambda stage: Schedule.from_csv(tmp_path / "program.csv", format, stages=stage, loss_fn=F.mse_loss)
    )
    for rank, (gradients, _) in enumerate(found):
        for mine, other in zip(gradients, wanted[rank], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12)


def test_a_file_of_computation_alone_refuses_transfers(tmp_path: Path) -> None:
    get_schedule_class("1F1B")(2, 4).to_csv(tmp_path / "program.csv", "compute_comms")
    with pytest.raises(ScheduleError, match="rank 0, cell 1: '0SEND_F0' does not compute, and the format is"):
        Schedule.from_csv(tmp_path / "program.csv", "compute_only")


def test_scale_grads_is_the_mean_or_the_sum() -> None:
    wanted = unsplit(2)[0]
    for scale, factor in ((True, 1.0), (False, 3.0)):
        found = one_step(
            lambda stage, scale=scale: get_schedule_class("GPipe")(
                stage, 3, loss_fn=F.mse_loss, scale_grads=scale
            )
        )
        np.testing.assert_allclose(found[0][0][0], wanted[0][0] * factor, rtol=1e-12)


def test_a_loss_weighted_by_tokens() -> None:
    """Rows of the target that count are in the first microbatch more than in the second."""
    valid = np.array([1.0] * 12 + [0.0] * 11 + [1.0])

    def loss(output: Tensor, target: Tensor) -> Tensor:
        mask = target[:, 0]
        return ((output - target[:, 1:]) ** 2).sum(1).mul(mask).sum() / mask.sum()

    y = np.concatenate([valid[:, None], Y], 1)
    blocks = [Block(0), Block(1)]
    loss(blocks[1](blocks[0](sw.tensor(X))), sw.tensor(y)).backward()

    def run(rank: int) -> None:
        stage = PipelineStage(Block(rank), rank, 2)
        schedule = get_schedule_class("1F1B")(
            stage, 2, loss, loss_reduction=lambda target: float(target[:, 0].sum())
        )
        schedule.step(*((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(y) if rank else None)
        np.testing.assert_allclose(
            stage.submodule.linear.weight.grad.numpy(), blocks[rank].linear.weight.grad.numpy(), rtol=1e-12
        )

    run_threads(run, 2)


def test_how_results_are_put_together() -> None:
    last = one_step(
        lambda stage: get_schedule_class("GPipe")(
            stage, 3, F.mse_loss, output_merge_spec=Fold(0.0, lambda total, each: total + float(each.sum()))
        )
    )[1][1]
    assert abs(last - unsplit(2)[1].sum()) < 1e-12


def test_how_arguments_are_cut() -> None:
    """Columns of a transposed batch, and a shift that all microbatches share, on the rank of its stage."""

    class Turned(nn.Module):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.block = Block(index)

        def forward(self, x: Tensor, shift: Tensor) -> Tensor:
            found: Tensor = self.block(x.T if self.block is first else x, shift)
            return found

    first: Any = None

    def run(rank: int) -> Any:
        nonlocal first
        module = Turned(rank)
        if rank == 0:
            first = module.block
        schedule = get_schedule_class("GPipe")(
            PipelineStage(module, rank, 2),
            3,
            args_chunk_spec=(Chunk(1),),
            kwargs_chunk_spec={"shift": Replicate()},
        )
        return schedule.eval(*((sw.tensor(X.T),) if rank == 0 else ()), shift=sw.tensor([0.5] * WIDTH))

    found = run_threads(run, 2)[1]
    wanted = Block(1)(Block(0)(sw.tensor(X), sw.tensor([0.5] * WIDTH)), sw.tensor([0.5] * WIDTH))
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-13)


def test_two_pipelines_side_by_side_by_groups() -> None:
    wanted = unsplit(2)[0]

    def run(rank: int) -> None:
        group = get_group((0, 2) if rank % 2 == 0 else (1, 3))
        stage = PipelineStage(Block(rank // 2), rank // 2, 2, group=group)
        schedule = get_schedule_class("1F1B")(stage, 4, F.mse_loss)
        schedule.step(*((sw.tensor(X),) if rank < 2 else ()), target=sw.tensor(Y) if rank >= 2 else None)
        got = stage.submodule.linear.weight.grad.numpy()
        np.testing.assert_allclose(got, wanted[rank // 2][0], rtol=1e-12)

    run_threads(run, 4)


def test_losses_on_all_ranks_where_asked() -> None:
    def run(rank: int) -> list[float]:
        stage = PipelineStage(Block(rank), rank, 2)
        schedule = get_schedule_class("1F1B")(stage, 3, F.mse_loss, broadcast_losses=True)
        losses: list[Tensor] = []
        schedule.step(
            *((sw.tensor(X),) if rank == 0 else ()), target=sw.tensor(Y) if rank else None, losses=losses
        )
        return [float(loss) for loss in losses]

    first, second = run_threads(run, 2)
    assert first == second
    assert abs(sum(first) / 3 - unsplit(2)[2]) < 1e-14


def test_a_schedule_on_paper_does_not_run() -> None:
    schedule = get_schedule_class("GPipe")(2, 4)
    with pytest.raises(
        ScheduleError, match=r"step: this schedule is on paper; make it of stages .*ScheduleGPipe"
    ):
        schedule.step()


@pytest.mark.parametrize("wrong", [[], [1], "stage"])
def test_what_is_no_stage(wrong: Any) -> None:
    with pytest.raises(ScheduleError, match="stages: wanted a number of ranks, a PipelineStage or several"):
        get_schedule_class("GPipe")(wrong, 4)


def test_step_without_gradients_names_eval() -> None:
    schedule = get_schedule_class("GPipe")(PipelineStage(Block(0), 0, 1), 2, F.mse_loss)
    with sw.no_grad(), pytest.raises(RuntimeError, match=r"call eval\(\)"):
        schedule.step(sw.tensor(X), target=sw.tensor(Y))


def test_text_of_a_program_runs() -> None:
    text = Program.from_text("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0").to_text()
    found = one_step(lambda stage: Schedule.from_actions(text, stages=stage, loss_fn=F.mse_loss))
    np.testing.assert_allclose(found[0][0][0], unsplit(2)[0][0][0], rtol=1e-12)
