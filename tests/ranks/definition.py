"""What each collective is, in NumPy, from the inputs of all ranks; and bodies that hold a rank against it.

The sums are of small integers, exact in every dtype, so that everything is compared bit by bit.
"""

from __future__ import annotations

from functools import reduce as fold

import ml_dtypes
import numpy as np

from shardwise import collectives
from shardwise.backend.array import Array, Shape

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL = np.dtype(bool)
INTEGERS = tuple(np.dtype(code) for code in "bhilBHIL")
FLOATS = (np.dtype("e"), BFLOAT16, np.dtype("f"), np.dtype("d"), np.dtype("g"))
COMPLEXES = (np.dtype("F"), np.dtype("D"))
DTYPES = (BOOL, *INTEGERS, *FLOATS, *COMPLEXES)

FORMULAS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def takes(op: str, dtype: np.dtype[np.generic]) -> bool:
    if op == "avg":
        return dtype in FLOATS or dtype in COMPLEXES
    if op in ("min", "max"):
        return dtype not in COMPLEXES
    if op in ("band", "bor", "bxor"):
        return dtype == BOOL or dtype in INTEGERS
    return True


def inputs(n: int, shape: Shape, dtype: np.dtype[np.generic], seed: int = 0) -> list[Array]:
    """Give every rank's input: the same list on all ranks."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 4, (n, *shape))
    if dtype in COMPLEXES:
        numbers = numbers + 1j * rng.integers(0, 4, (n, *shape))
    return [np.asarray(each).astype(dtype) for each in numbers]


def reduced(op: str, xs: list[Array]) -> Array:
    dtype = xs[0].dtype
    if op == "avg":
        wide = np.float32 if dtype.itemsize == 2 else dtype
        total = fold(np.add, [x.astype(wide) for x in xs])
        return np.asarray(total / np.asarray(len(xs), wide)).astype(dtype)
    wide_xs = [x.astype(np.float32) for x in xs] if dtype in FLOATS[:2] else xs
    return np.asarray(fold(FORMULAS[op], wide_xs)).astype(dtype)


def check_reductions(dtype: np.dtype[np.generic], op: str, shape: Shape) -> None:
    """On one rank of the world: all_reduce, reduce and reduce_scatter, in every way to call them."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    x = xs[rank].copy()
    want = reduced(op, xs)
    same(collectives.all_reduce(x, op), want)
    same(x, xs[rank])
    out = np.empty_like(x)
    assert collectives.all_reduce(x, op, out=out) is out
    same(out, want)
    work = collectives.all_reduce(x, op, async_op=True)
    same(work.wait(), want)
    assert work.wait() is work.wait()
    assert work.is_completed()
    assert collectives.all_reduce(x, op, out=x) is x
    same(x, want)

    for dst in range(n):
        got = collectives.reduce(xs[rank], dst, op)
        assert (got is None) == (rank != dst)
        if got is not None:
            same(got, want)

    for dim in range(len(shape)):
        xs = inputs(n, (*shape[:dim], n * shape[dim], *shape[dim + 1 :]), dtype, seed=dim)
        want = np.split(reduced(op, xs), n, dim)[rank]
        same(collectives.reduce_scatter(xs[rank], op, dim=dim), want)
        out = np.empty(want.shape, dtype)
        assert collectives.reduce_scatter(xs[rank], op, dim=dim - len(shape), out=out) is out
        same(out, want)


def check_movements(dtype: np.dtype[np.generic], shape: Shape) -> None:
    """On one rank of the world: what moves and does not reduce."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    x = xs[rank]
    for dim in range(max(len(shape), 1)):
        want = np.concatenate([np.atleast_1d(each) for each in xs], dim)
        same(collectives.all_gather(x, dim=dim), want)
        out = np.empty_like(want)
        assert collectives.all_gather(x, dim=dim, out=out) is out
        same(out, want)
        got = collectives.gather(x, n - 1, dim=dim)
        assert (got is None) == (rank != n - 1)
        if got is not None:
            same(got, want)
    for src in range(n):
        same(collectives.broadcast(x, src), xs[src])
        out = x.copy()
        assert collectives.broadcast(out if rank == src else None, src, out=out) is out
        same(out, xs[src])
    for dim in range(len(shape)):
        wide = inputs(n, (*shape[:dim], n * shape[dim], *shape[dim + 1 :]), dtype, seed=dim)
        parts = [np.split(each, n, dim) for each in wide]
        same(collectives.scatter(wide[rank], n - 1, dim=dim), parts[n - 1][rank])
        out = np.empty(shape, dtype)
        collectives.scatter(wide[0] if rank == 0 else None, 0, dim=dim, out=out)
        same(out, parts[0][rank])
        for concat in range(len(shape)):
            want = np.concatenate([parts[other][rank] for other in range(n)], concat)
            same(collectives.all_to_all(wide[rank], split_dim=dim, concat_dim=concat), want)


def check_messages(dtype: np.dtype[np.generic], shape: Shape) -> None:
    """On one rank of the world: around the ring, and to itself."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    before, after = (rank - 1) % n, (rank + 1) % n
    sends = [collectives.isend(xs[rank], after, tag=tag) for tag in (3, 0, 3)]
    same(collectives.recv(shape, dtype, before), xs[before])
    first, second = (collectives.irecv(shape, dtype, before, tag=3) for _ in range(2))
    same(second.wait(), xs[before])
    same(first.wait(), xs[before])
    for send in sends:
        assert send.wait() is None


def same(got: Array, want: Array) -> None:
    """Equal in type, shape, dtype and bits."""
    assert type(got) is np.ndarray
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert np.array_equal(got, want), f"{got} is not {want}"
