"""Pipelines on devices: a communicator and a stream for each directed edge, on the strict double of NCCL."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from doubles import installed
from shardwise import nn
from shardwise.collectives import get_world
from shardwise.pipelining import Pipeline, PipelineStage, fetch, lower, stash
from shardwise.pipelining.device_link import directed_edges
from shardwise.pipelining.schedule.named import NAMED
from shardwise.tensor import Tensor

WIDTH, ROWS = 4, 9
X = np.random.default_rng(0).standard_normal((ROWS, WIDTH))
Y = np.random.default_rng(1).standard_normal((ROWS, WIDTH))


@pytest.fixture(params=["nccl", "staged"])
def cupy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The double, in the place of CuPy; arrays go by NCCL or by the host."""
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", request.param)
    monkeypatch.setenv("SHARDWISE_KERNELS", "plain")
    with installed(zlib.crc32(request.node.name.encode())) as module:
        module.way = request.param  # type: ignore[attr-defined]
        yield module


class Block(nn.Module):
    def __init__(self, index: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.random.default_rng(index).standard_normal((WIDTH, WIDTH)))
        self.index, self.last = index, count - 1

    def forward(self, x: Tensor, other: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y = x @ self.weight
        if self.index == 0:
            stash("first", y * 0.5)
        if self.index == self.last:
            y = y + fetch("first")
        return y, y * 2.0 if other is None else other + y


def loss_of(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return ((output[0] - target) ** 2).mean() + (output[1] ** 2).mean()


def unsplit(count: int) -> list[Any]:
    blocks = [Block(i, count) for i in range(count)]
    values: tuple[Tensor, ...] = (sw.tensor(X),)
    for block in blocks:
        values = block(*values)
    loss_of((values[0], values[1]), sw.tensor(Y)).backward()
    return [block.weight.grad.numpy() for block in blocks]


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("name", ["GPipe", "1F1B", "ZBH1", "Interleaved1F1B", "ZBVZeroBubble", "DualPipe"])
def test_gradients_are_those_of_the_unsplit_model(name: str, p: int, cupy: ModuleType) -> None:
    if name == "DualPipe" and p % 2:
        pytest.skip("DualPipe takes an even number of ranks")
    named = NAMED[name]
    program = named.program(name, p, 2 * p, 1 if named.per_rank == (1,) else 2)
    wanted = unsplit(program.stages)
    way = cupy.way

    def run(rank: int) -> None:
        with cupy.cuda.Device(rank):
            stages = [
                PipelineStage(Block(s, program.stages).to(f"cuda:{rank}"), s, program.stages)
                for s in program.stages_of(rank)
            ]
            pipe = Pipeline(program, stages, loss_fn=loss_of, replicas=named.replicas)
            args = (sw.tensor(X).to(f"cuda:{rank}"),) if pipe.has_first else ()
            target = sw.tensor(Y).to(f"cuda:{rank}") if pipe.has_last else None
            losses: list[Tensor] = []
            pipe.step(*args, target=target, losses=losses)
            for stage in stages:
                weight: Any = stage.submodule.weight
                assert isinstance(weight.grad.data, cupy.ndarray)
                got = weight.grad.cpu().numpy()
                np.testing.assert_allclose(got, wanted[stage.stage_index], rtol=1e-12, atol=1e-13)
            pipe.eval(*args)
            messages = [r for r in get_world().ledger.records if r.op in ("send", "recv")]
            # Nothing goes by tags where NCCL is, nor by one communicator for both directions.
            assert bool(messages) == (way == "staged")

    sw.spawn(run, nprocs=p, transport="threads")


def test_an_edge_for_each_direction() -> None:
    program = NAMED["1F1B"].program("1F1B", 3, 4, 1)
    assert directed_edges(lower(program), (0, 1, 2)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert directed_edges(lower(program, skips={0: (2,)}), (0, 1, 2)) == [
        (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1),
    ]  # fmt: skip
