"""Every collective on ranks that are threads, against its definition, for 1 to 4 of them."""

from __future__ import annotations

import numpy as np
import pytest

from ranks.definition import (
    DTYPES,
    check_messages,
    check_movements,
    check_reductions,
    check_scans,
    check_uneven,
    takes,
)
from shardwise.backend.array import Shape
from shardwise.collectives import run_threads
from shardwise.collectives.reduction import REDUCTIONS

SIZES = (1, 2, 3, 4)
SHAPES: tuple[Shape, ...] = ((), (0,), (5,), (2, 3), (2, 0, 3))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[np.generic], n: int) -> None:
    def body(rank: int) -> None:
        for op in REDUCTIONS:
            if takes(op, dtype):
                check_reductions(dtype, op, (2, 3))
                if op != "avg":
                    check_scans(dtype, op, (2, 3))
        check_movements(dtype, (2, 3))
        check_uneven(dtype, (2, 3))
        check_messages(dtype, (2, 3))

    run_threads(body, n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape: Shape, n: int) -> None:
    def body(rank: int) -> None:
        dtype = np.dtype(np.float32)
        check_reductions(dtype, "sum", shape)
        check_scans(dtype, "sum", shape)
        check_movements(dtype, shape)
        check_uneven(dtype, shape)
        check_messages(dtype, shape)

    run_threads(body, n)


def test_alone() -> None:
    for dtype in DTYPES:
        for op in REDUCTIONS:
            if takes(op, dtype):
                check_reductions(dtype, op, (2, 3))
                if op != "avg":
                    check_scans(dtype, op, (2, 3))
        check_movements(dtype, (2, 3))
        check_uneven(dtype, (2, 3))
        check_messages(dtype, (2, 3))
