"""Collectives on arrays of a GPU: over NCCL where each rank has one, by way of the host where they share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from ranks.definition import BFLOAT16, BOOL
from ranks.on_device import (
    check_every_reduction,
    check_messages,
    check_movements,
    check_uneven,
    put,
    same,
)
from shardwise import collectives
from shardwise.backend import get_backend

pytestmark = pytest.mark.mpi(min_size=1)

DTYPES = (BOOL, np.dtype("h"), np.dtype("l"), np.dtype("e"), BFLOAT16, np.dtype("f"), np.dtype("D"))


@pytest.fixture(params=["nccl", "staged"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How the arrays go; groups agree anew afterwards."""
    ranks, devices = collectives.get_world().local_size, get_backend("cuda").device_count()
    if request.param == "nccl" and ranks > devices:
        pytest.skip(f"NCCL wants a GPU for each rank: there are {ranks} ranks and {devices} GPUs")
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", request.param)
    monkeypatch.setenv("SHARDWISE_SHARE_GPUS", "1" if ranks > devices else "0")
    collectives.local_device("cuda")
    yield str(request.param)
    collectives.barrier()
    for group in [*collectives.get_world()._groups.values()]:
        if group._device is not None:
            group._device.close()
            group._device = None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_collective(dtype: np.dtype[np.generic], by: str) -> None:
    check_every_reduction(dtype, (2, 3), avg_exactly=by != "nccl" or collectives.world_size() == 1)
    check_movements(dtype, (2, 3))
    check_uneven(dtype)
    check_messages(dtype, (2, 3))
    if collectives.world_size() > 1:
        assert collectives.get_group().device_transport == by


@pytest.mark.parametrize("size", [1 << 20, (1 << 25) + 1])
def test_large(size: int, by: str) -> None:
    rank, n = collectives.rank(), collectives.world_size()
    x = put(np.full(size, rank + 1, np.float32))
    for _ in range(3):
        same(collectives.all_reduce(x), np.full(size, n * (n + 1) // 2, np.float32))


def test_on_a_stream_of_the_caller(by: str) -> None:
    """Work that is queued before and behind an operation stays there, though the host waits for nothing."""
    cupy = sys.modules["cupy"]
    rank, n = collectives.rank(), collectives.world_size()
    total = n * (n + 1) // 2
    with cupy.cuda.Stream(non_blocking=True):
        for turn in range(20):
            x = put(np.zeros(1 << 20, np.float32))
            for _ in range(50):
                x += (rank + 1) / 50
            y = collectives.all_reduce(x, async_op=True).wait()
            del x
            cupy.full(1 << 20, np.nan, np.float32)  # takes the memory of x, if nobody keeps it
            y *= 2
            np.testing.assert_allclose(y.get(), 2 * total, rtol=1e-4, err_msg=f"turn {turn}")
