"""Reductions by rank order: the same bits on any transport; without it the same bits on all ranks."""

from __future__ import annotations

import numpy as np
import pytest

from ranks.definition import BFLOAT16
from shardwise import collectives as c
from shardwise.backend.array import Array
from shardwise.collectives.reduction import Reduction, combine

DTYPES = tuple(np.dtype(code) for code in "efdgFD") + (BFLOAT16,)
SIZES = (1, 5, 9001)


def draw(rank: int, size: int, dtype: np.dtype[np.generic]) -> Array:
    """Numbers whose sum depends on the order of adding; every rank can draw those of all."""
    rng = np.random.default_rng([rank, size])
    numbers = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)
    return (numbers + 1j * numbers[::-1] if dtype.kind == "c" else numbers).astype(dtype)


def folded(parts: list[Array], op: Reduction) -> Array:
    out = np.empty_like(parts[0])
    combine(parts, op, out)
    return out


def equal_bits(got: Array, want: Array) -> bool:
    if got.dtype.char == "g":  # its padding is anything
        return np.array_equal(got, want)
    return got.tobytes() == want.tobytes()


def check_order(group: c.ProcessGroup, dtype: np.dtype[np.generic]) -> None:
    """On one rank: what the definition gives, bit by bit."""
    n, rank = group.size, group.member("check")
    ops: tuple[Reduction, ...] = ("sum", "avg", "prod")
    for size in SIZES:
        parts = [draw(i, size * n, dtype) for i in range(n)]
        for op in ops:
            want = folded(parts, op)
            assert equal_bits(c.all_reduce(parts[rank], op, group), want)
            got = c.reduce(parts[rank], group.ranks[-1], op, group)
            assert got is None or equal_bits(got, want)
            mine = want[size * rank : size * rank + size]
            assert equal_bits(c.reduce_scatter(parts[rank], op, group), mine)
        sizes = [0] * (n - 1) + [size * n]
        assert equal_bits(
            c.reduce_scatter(parts[rank], "sum", group, sizes=sizes),
            folded(parts, "sum")[: sizes[rank]],
        )
        assert equal_bits(c.scan(parts[rank], "sum", group), folded(parts[: rank + 1], "sum"))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_threads_go_by_rank_order(n: int) -> None:
    def body(rank: int) -> None:
        for dtype in DTYPES:
            check_order(c.get_group(), dtype)

    c.run_threads(body, n)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mpi_goes_by_rank_order_when_it_is_told(dtype: np.dtype[np.generic]) -> None:
    check_order(c.new_group(deterministic="by-rank-order"), dtype)
    if c.world_size() > 2:
        turned = c.new_group(np.roll(np.arange(c.world_size()), 1), deterministic="by-rank-order")
        check_order(turned, dtype)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_ranks_and_runs_have_the_same_bits(dtype: np.dtype[np.generic]) -> None:
    for size in SIZES:
        x = draw(c.rank(), size, dtype)
        for op in ("sum", "avg", "prod"):
            first, second = (c.all_reduce(x, op) for _ in range(2))  # type: ignore[call-overload]
            assert equal_bits(first, second)
            everyone = c.all_gather(first[None])
            assert all(equal_bits(np.ascontiguousarray(row), first) for row in everyone)
