"""Every collective over MPI, against its definition; every rank runs the same tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ranks.definition import (
    BFLOAT16,
    DTYPES,
    check_messages,
    check_movements,
    check_reductions,
    check_scans,
    check_uneven,
    inputs,
    reduced,
    same,
    takes,
)
from shardwise import collectives
from shardwise.backend.array import Shape
from shardwise.collectives.context import rank_thread
from shardwise.collectives.mpi.transport import MPITransport
from shardwise.collectives.reduction import REDUCTIONS

SHAPES: tuple[Shape, ...] = ((), (0,), (5,), (2, 3), (2, 0, 3))
SOME_DTYPES = tuple(np.dtype(code) for code in ("?", "b", "Q", "e", "f", "d", "g", "F")) + (BFLOAT16,)

pytestmark = pytest.mark.mpi(min_size=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: np.dtype[np.generic]) -> None:
    for op in REDUCTIONS:
        if takes(op, dtype):
            check_reductions(dtype, op, (2, 3))
            if op != "avg":
                check_scans(dtype, op, (2, 3))
    check_movements(dtype, (2, 3))
    check_uneven(dtype, (2, 3))
    check_messages(dtype, (2, 3))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(shape: Shape) -> None:
    for dtype in (np.dtype(np.float32), BFLOAT16):
        check_reductions(dtype, "sum", shape)
        check_scans(dtype, "sum", shape)
        check_movements(dtype, shape)
        check_uneven(dtype, shape)
        check_messages(dtype, shape)


@pytest.mark.parametrize("dtype", SOME_DTYPES, ids=str)
@pytest.mark.parametrize("nbytes", [16_000, 2_000_001])
def test_large(nbytes: int, dtype: np.dtype[np.generic]) -> None:
    """Beyond the sizes at which algorithms change, and not divisible by the ranks."""
    rank, n = collectives.rank(), collectives.world_size()
    size = nbytes // dtype.itemsize
    xs = inputs(n, (size,), dtype)
    for op in ("sum", "max", "avg"):
        if takes(op, dtype):
            same(collectives.all_reduce(xs[rank], op), reduced(op, xs))
            got = collectives.reduce(xs[rank], 0, op)
            if got is not None:
                same(got, reduced(op, xs))
    same(collectives.all_gather(xs[rank]), np.concatenate(xs))
    same(collectives.broadcast(xs[rank], n - 1), xs[-1])
    check_messages(dtype, (size,))


@pytest.fixture
def tiny_chunks() -> Iterator[None]:
    """A world whose messages hold 100 bytes, so that all there is goes in several."""
    from mpi4py import MPI

    collectives.get_world()
    with rank_thread(lambda: MPITransport(MPI, chunk=100)):
        yield
        collectives.shutdown()


@pytest.mark.parametrize("dtype", SOME_DTYPES, ids=str)
def test_in_many_messages(dtype: np.dtype[np.generic], tiny_chunks: None) -> None:
    """What MPI cannot count in one message goes in several, whatever the collective."""
    for shape in ((), (61,), (7, 12), (0,)):
        for op in REDUCTIONS:
            if takes(op, dtype):
                check_reductions(dtype, op, shape)
                if op != "avg":
                    check_scans(dtype, op, shape)
        check_movements(dtype, shape)
        check_uneven(dtype, shape)
        check_messages(dtype, shape)
