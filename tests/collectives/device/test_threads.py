"""Every collective on device arrays between ranks that are threads, on the double, against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from ranks.on_device import (
    DEVICE_DTYPES,
    check_every_reduction,
    check_lists,
    check_messages,
    check_movements,
    check_uneven,
)
from shardwise import collectives
from shardwise.backend.array import Shape

SHAPES: tuple[Shape, ...] = ((), (0,), (5,), (2, 3), (2, 0, 3))


def run(body: Any, n: int, *args: object) -> None:
    """Run `body` on n ranks, each on its own device."""

    def on_device(rank: int) -> None:
        import cupy

        with cupy.cuda.Device(rank):
            body(*args)

    sw.spawn(on_device, nprocs=n, transport="threads")


def everything(dtype: np.dtype[Any], shape: Shape, by: str) -> None:
    check_every_reduction(dtype, shape, avg_exactly=by != "nccl" or collectives.world_size() == 1)
    check_movements(dtype, shape)
    check_messages(dtype, shape)
    if collectives.world_size() > 1:
        assert collectives.get_group().device_transport == by


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", DEVICE_DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[Any], n: int, by: str) -> None:
    run(everything, n, dtype, (2, 3), by)
    run(check_uneven, n, dtype)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape: Shape, n: int, by: str) -> None:
    run(everything, n, np.dtype(np.float32), shape, by)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_lists(dtype: str, n: int, by: str) -> None:
    run(check_lists, n, np.dtype(dtype))
