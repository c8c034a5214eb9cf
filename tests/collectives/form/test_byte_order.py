"""A rank's byte order is its own affair, as is the object that its dtype is: others agree with it."""

from __future__ import annotations

import numpy as np
import pytest

from ranks.definition import inputs, reduced, same
from shardwise import collectives as c
from shardwise.collectives.reduction import Reduction

NATIVE = np.dtype("u2")
REDUCTIONS: tuple[Reduction, ...] = ("sum", "prod", "min", "max", "band", "bor", "bxor")


def swapped_on_one_rank() -> None:
    rank, n = c.rank(), c.world_size()
    foreign = NATIVE.newbyteorder()
    for size in (3, 5000):
        xs = inputs(n, (size * n,), NATIVE, seed=size)
        x = xs[rank].astype(foreign) if rank == n - 1 else xs[rank]
        # The one rank makes its loops for a dtype that only equals NumPy's own; for each in a new place.
        for op in REDUCTIONS:
            same(c.reduce_scatter(x, op), np.split(reduced(op, xs), n)[rank])
            same(c.all_reduce(x, op), reduced(op, xs))
        same(c.all_gather(x), np.concatenate(xs))
        for got, want in zip(c.all_gather_list(x), xs, strict=True):
            same(got, want)
        parts = np.split(x, n)
        for got, other in zip(c.all_to_all_list(parts), xs, strict=True):
            same(got, np.split(other, n)[rank])
        first, second = c.all_reduce_coalesced([xs[rank], x])
        same(first, reduced("sum", xs))
        same(second, reduced("sum", xs))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_on_threads(n: int) -> None:
    c.run_threads(lambda rank: swapped_on_one_rank(), n)


@pytest.mark.mpi
def test_over_mpi() -> None:
    swapped_on_one_rank()
