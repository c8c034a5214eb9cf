"""Pipelines with data parallelism, tensor parallelism and sharded parameters, on one mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.collectives import get_world, run_threads
from shardwise.dtensor import DTensor, Replicate, distribute_tensor
from shardwise.nn import functional as F
from shardwise.parallel import (
    ColwiseParallel,
    DistributedDataParallel,
    RowwiseParallel,
    parallelize_module,
)
from shardwise.pipelining import Pipeline, PipelineStage, Program, Schedule, get_schedule_class
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor

WIDTH, ROWS = 4, 22
X = np.random.default_rng(6).standard_normal((ROWS, WIDTH))
Y = np.random.default_rng(7).standard_normal((ROWS, WIDTH))


class Block(nn.Module):
    """Two linear layers, one of which is widened, and dropout, whose mask tells rows apart."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.3)
        rng = np.random.default_rng(index)
        for parameter in self.parameters():
            parameter.data = rng.standard_normal(parameter.shape) / 2

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.down(self.up(x).tanh()))


class Named(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({str(index): Block(index)})
        self.index = str(index)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.blocks[self.index](x)
        return found


class Whole(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(i) for i in range(count)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def unsplit(count: int, steps: int) -> list[list[Any]]:
    sw.manual_seed(3)
    model = Whole(count)
    for _ in range(steps):
        F.mse_loss(model(sw.tensor(X)), sw.tensor(Y)).backward()
    return [[p.grad.numpy() for p in block.parameters()] for block in model.blocks]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["1F1B", "ZBH1", "Interleaved1F1B", "ZBVZeroBubble"])
def test_data_parallel_by_pipeline(name: str, wrapped: bool) -> None:
    """Gradients are those of the whole batch on one rank; each stage's are reduced once per step."""
    named = NAMED[name]
    per_rank = 1 if named.per_rank == (1,) else 2
    program = named.program(name, 2, 4, per_rank)
    wanted = unsplit(program.stages, 2)

    def run(rank: int) -> None:
        sw.manual_seed(3)
        mesh = sw.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
        dp, pp = mesh["dp"].get_group(), mesh["pp"].get_group()
        place, part = pp.rank or 0, dp.rank or 0
        x, y = X.reshape(2, -1, WIDTH)[part], Y.reshape(2, -1, WIDTH)[part]
        stages = []
        for index in program.stages_of(place):
            module: nn.Module = Named(index)
            if part:  # replicas begin equal all the same
                for parameter in module.parameters():
                    parameter.data = parameter.data + 1.0
            if wrapped:
                module = DistributedDataParallel(module, dp)
            stages.append(PipelineStage(module, index, program.stages))
        pipe = Pipeline(
            program, stages, loss_fn=F.mse_loss, ranks=pp.ranks, data_parallel=None if wrapped else dp
        )
        before = reductions()
        for _ in range(2):
            pipe.step(
                *((sw.tensor(x),) if pipe.has_first else ()), target=sw.tensor(y) if pipe.has_last else None
            )
        assert reductions() - before == 2 * len(stages)
        for stage in stages:
            for mine, other in zip(stage.submodule.parameters(), wanted[stage.stage_index], strict=True):
                np.testing.assert_allclose(mine.grad.numpy(), other, rtol=1e-12, atol=1e-14)

    run_threads(run, 4)


def reductions() -> int:
    """How many all-reduces this rank has made."""
    return sum(record.op == "all_reduce" for record in get_world().ledger.records)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("name", ["1F1B", "ZBVZeroBubble"])
def test_tensor_parallel_by_pipeline(name: str, local: bool) -> None:
    """Stages are split over an axis, and what goes between them is a plain tensor or a DTensor."""
    program = NAMED[name].program(name, 2, 4, 1 if name == "1F1B" else 2)
    wanted = unsplit(program.stages, 2)

    def run(rank: int) -> None:
        sw.manual_seed(3)
        mesh = sw.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
        pp, tp = mesh["pp"].get_group(), mesh["tp"]
        stages = []
        for index in program.stages_of(pp.rank or 0):
            module = Named(index)
            block = module.blocks[str(index)]
            parallelize_module(
                block, tp, {"up": ColwiseParallel(), "down": RowwiseParallel(use_local_output=local)}
            )
            stages.append(PipelineStage(module, index, program.stages, mesh=tp))
        pipe = Pipeline(program, stages, loss_fn=loss, ranks=pp.ranks)
        x, y = sw.tensor(X), sw.tensor(Y)
        if not local:
            x, y = (distribute_tensor(each, tp, [Replicate()], src_data_rank=None) for each in (x, y))
        for _ in range(2):
            pipe.step(*((x,) if pipe.has_first else ()), target=y if pipe.has_last else None)
        for stage in stages:
            for mine, other in zip(stage.submodule.parameters(), wanted[stage.stage_index], strict=True):
                grad = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
                np.testing.assert_allclose(grad.numpy(), other, rtol=1e-12, atol=1e-14)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        found = F.mse_loss(output, target)
        return found.full_tensor() if isinstance(found, DTensor) else found

    run_threads(run, 4)


class Told:
    """A stand-in for sharded parameters: it notes what it is told, and empties them when they are dropped."""

    def __init__(self, module: nn.Module, log: list[str], name: str) -> None:
        self.module, self.log, self.name = module, log, name
        self.whole = {n: p.data for n, p in module.named_parameters()}
        self.reshard()
        log.clear()

    def unshard(self) -> None:
        self.log.append(f"{self.name}UNSHARD")
        for n, p in self.module.named_parameters():
            p.data = self.whole[n]

    def reshard(self) -> None:
        self.log.append(f"{self.name}RESHARD")
        for p in self.module.parameters():
            p.data = np.full_like(p.data, np.nan)

    def reduce_grad(self) -> None:
        self.log.append(f"{self.name}REDUCE_GRAD")

    def finish(self) -> None:
        self.log.append(f"{self.name}finish")


@pytest.mark.parametrize("name", ["LoopedBFS", "Interleaved1F1B", "ZBVZeroBubble"])
def test_sharded_parameters_are_gathered_dropped_and_reduced(name: str) -> None:
    program = NAMED[name].program(name, 2, 4, 2)
    wanted = unsplit(program.stages, 1)

    def run(rank: int) -> None:
        sw.manual_seed(3)
        log: list[str] = []
        stages = []
        for index in program.stages_of(rank):
            module = Named(index)
            stages.append(PipelineStage(module, index, program.stages, sharded=Told(module, log, str(index))))
        pipe = Pipeline(program, stages, loss_fn=F.mse_loss, max_active_stages=1)
        pipe.step(
            *((sw.tensor(X),) if pipe.has_first else ()), target=sw.tensor(Y) if pipe.has_last else None
        )
        for stage in stages:
            index = str(stage.stage_index)
            mine = [entry.removeprefix(index) for entry in log if entry.startswith(index)]
            assert mine.count("REDUCE_GRAD") == mine.count("finish") == 1
            turns = [entry for entry in mine if entry.endswith("SHARD")]
            assert turns == ["UNSHARD", "RESHARD"] * (len(turns) // 2)
            for p, other in zip(stage.submodule.parameters(), wanted[stage.stage_index], strict=True):
                np.testing.assert_allclose(p.grad.numpy(), other, rtol=1e-12, atol=1e-14)
        # One stage of a rank at a time: breadth first gathers each once per direction.
        if name == "LoopedBFS":
            assert log.count("0UNSHARD") == (2 if rank == 0 else 0)

    run_threads(run, 2)


def test_a_schedule_takes_the_options_of_a_pipeline() -> None:
    wanted = unsplit(2, 1)

    def run(rank: int) -> None:
        sw.manual_seed(3)
        mesh = sw.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
        dp, pp = mesh["dp"].get_group(), mesh["pp"].get_group()
        place = pp.rank or 0
        stage = PipelineStage(Named(place), place, 2, group=pp)
        schedule: Schedule = get_schedule_class("1F1B")(stage, 3, F.mse_loss, data_parallel=dp)
        x, y = X.reshape(2, -1, WIDTH)[dp.rank or 0], Y.reshape(2, -1, WIDTH)[dp.rank or 0]
        schedule.step(*((sw.tensor(x),) if place == 0 else ()), target=sw.tensor(y) if place else None)
        for mine, other in zip(stage.submodule.parameters(), wanted[place], strict=True):
            np.testing.assert_allclose(mine.grad.numpy(), other, rtol=1e-12, atol=1e-14)

    run_threads(run, 4)


def test_reductions_stand_behind_the_last_backward_of_their_stage() -> None:
    stage = PipelineStage(Named(0), 0, 1)
    pipe = Pipeline(
        Program.from_text("0F0,0F1,0I0,0W0,0I1,0W1"), [stage], loss_fn=F.mse_loss,
        data_parallel=sw.collectives.get_group(),
    )  # fmt: skip
    assert str(pipe.lowered) == "0F0,0F1,0I0,0W0,0I1,0W1,0REDUCE_GRAD"
