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
FLOAT8S = tuple(
    np.dtype(kind)
    for kind in (
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3,
    )
)
NARROW = (np.dtype("e"), BFLOAT16, *FLOAT8S)
FLOATS = (*NARROW, np.dtype("f"), np.dtype("d"), np.dtype("g"))
COMPLEXES = (np.dtype("F"), np.dtype("D"), np.dtype("G"))
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
        wide = np.float32 if dtype in NARROW else dtype
        total = np.asarray(fold(np.add, [x.astype(wide) for x in xs]))
        if dtype in COMPLEXES:
            n = total.real.dtype.type(len(xs))
            return np.asarray(total.real / n + 1j * (total.imag / n)).astype(dtype)
        return np.asarray(total / np.asarray(len(xs), wide)).astype(dtype)
    wide_xs = [x.astype(np.float32) for x in xs] if dtype in NARROW else xs
    with np.errstate(all="ignore"):  # what is too large for eight bits
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


def uneven_sizes(n: int, extent: int) -> list[int]:
    """Extents that differ: none for the first rank, and more for the later ones."""
    return [extent * rank for rank in range(n)]


def part(x: Array, sizes: list[int], rank: int, dim: int) -> Array:
    """One rank's part of an array that ranks share along `dim`."""
    begin = sum(sizes[:rank])
    return np.moveaxis(np.moveaxis(x, dim, 0)[begin : begin + sizes[rank]], 0, dim)


def check_uneven(dtype: np.dtype[np.generic], shape: Shape) -> None:
    """On one rank of the world: what moves and reduces in parts of different sizes."""
    rank, n = collectives.rank(), collectives.world_size()
    for dim in range(len(shape)):
        sizes = uneven_sizes(n, shape[dim])
        whole = (*shape[:dim], sum(sizes), *shape[dim + 1 :])
        everyone = inputs(n, whole, dtype, seed=dim)
        mine = [part(everyone[0], sizes, each, dim) for each in range(n)]
        same(collectives.all_gather(mine[rank], dim=dim, sizes=sizes), everyone[0])
        out = np.empty(whole, dtype)
        assert collectives.all_gather(mine[rank], dim=dim - len(shape), sizes=sizes, out=out) is out
        same(out, everyone[0])
        out = np.empty(whole, dtype)
        work = collectives.all_gather(mine[rank], dim=dim, sizes=sizes, out=out, async_op=True)
        assert work.wait() is out
        same(out, everyone[0])
        got = collectives.gather(mine[rank], n - 1, dim=dim, sizes=sizes)
        assert (got is None) == (rank != n - 1)
        if got is not None:
            same(got, everyone[0])
        scattered = part(everyone[n - 1], sizes, rank, dim)
        same(collectives.scatter(everyone[rank], n - 1, dim=dim, sizes=sizes), scattered)
        out = np.empty(scattered.shape, dtype)
        given = everyone[n - 1] if rank == n - 1 else None
        assert collectives.scatter(given, n - 1, dim=dim, sizes=sizes, out=out) is out
        same(out, scattered)
        for op in ("sum", "max", "avg"):
            if takes(op, dtype):
                want = part(reduced(op, everyone), sizes, rank, dim)
                got = collectives.reduce_scatter(everyone[rank], op, dim=dim, sizes=sizes)  # type: ignore[call-overload]
                same(got, np.ascontiguousarray(want))
        for concat in range(len(shape)):
            check_all_to_all(dtype, shape, dim, concat)
    if shape:
        rows = [[(i + 2 * j) % 3 for j in range(n)] for i in range(n)]  # from i to j
        everyone = [
            np.asarray(x)[: sum(sent)]
            for x, sent in zip(inputs(n, (3 * n, *shape), dtype), rows, strict=True)
        ]
        came = [part(everyone[i], rows[i], rank, 0) for i in range(n)]
        sizes = [rows[i][rank] for i in range(n)]
        same(collectives.all_to_all_single(everyone[rank], sizes, rows[rank]), np.concatenate(came))
        out = np.empty((sum(sizes), *shape), dtype)
        work = collectives.all_to_all_single(everyone[rank], sizes, rows[rank], out=out, async_op=True)
        assert work.wait() is out
        same(out, np.concatenate(came))


def check_all_to_all(dtype: np.dtype[np.generic], shape: Shape, split: int, concat: int) -> None:
    """On one rank: parts of different sizes along the two dims, which are shared so before and after."""
    rank, n = collectives.rank(), collectives.world_size()
    if split == concat:
        return
    before, after = uneven_sizes(n, shape[concat]), uneven_sizes(n, shape[split])[::-1]
    whole = list(shape)
    whole[concat], whole[split] = sum(before), sum(after)
    (x,) = inputs(1, tuple(whole), dtype)
    got = collectives.all_to_all(
        part(x, before, rank, concat),
        split_dim=split,
        concat_dim=concat,
        split_sizes=after,
        concat_sizes=before,
    )
    same(got, np.ascontiguousarray(part(x, after, rank, split)))


def check_scans(dtype: np.dtype[np.generic], op: str, shape: Shape) -> None:
    """On one rank of the world: scans up and down, with and without the rank itself."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    x = xs[rank].copy()
    same(collectives.scan(x, op), reduced(op, xs[: rank + 1]))  # type: ignore[call-overload]
    same(collectives.scan(x, op, reverse=True), reduced(op, xs[rank:][::-1]))  # type: ignore[call-overload]
    for reverse, before in ((False, xs[:rank]), (True, xs[:rank:-1])):
        got = collectives.exscan(x, op, reverse=reverse)  # type: ignore[call-overload]
        if before:
            same(got, reduced(op, before))
        else:
            with np.errstate(all="ignore"):
                same(np.asarray(FORMULAS[op](got, x)).astype(dtype), x)
    work = collectives.exscan(x, op, async_op=True)  # type: ignore[call-overload]
    same(work.wait(), collectives.exscan(x, op))  # type: ignore[call-overload]
    same(x, xs[rank])
    assert collectives.scan(x, op, out=x) is x  # type: ignore[call-overload]
    same(x, reduced(op, xs[: rank + 1]))


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
    if got.dtype in FLOAT8S:  # NaN among them
        assert got.tobytes() == want.tobytes(), f"{got} is not {want}"
    else:
        assert np.array_equal(got, want), f"{got} is not {want}"
