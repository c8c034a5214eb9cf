"""Bodies that hold the collectives of one rank against their definition, on device arrays."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from ranks.definition import BFLOAT16, BOOL, COMPLEXES, inputs, reduced, takes
from shardwise import collectives
from shardwise.backend.array import Array, Shape
from shardwise.collectives.reduction import REDUCTIONS

DEVICE_DTYPES = (
    *(BOOL, *(np.dtype(code) for code in "bhilBHIL"), np.dtype("e"), BFLOAT16, np.dtype("f"), np.dtype("d")),
    *(dtype for dtype in COMPLEXES if dtype.itemsize <= 16),
)


def put(x: Array) -> Any:
    """A copy of `x` on the current device."""
    return sys.modules["cupy"].asarray(x)


def same(got: Any, want: Array, exactly: bool = True) -> None:
    """On the device, equal in shape, dtype and bits; or nearly, where NCCL scales before it adds up."""
    assert isinstance(got, sys.modules["cupy"].ndarray)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    host = got.get()
    if exactly:
        assert np.array_equal(host, want), f"{host} is not {want}"
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        eps = float(ml_dtypes.finfo(want.dtype).eps)
        np.testing.assert_allclose(host.astype(wide), want.astype(wide), rtol=4 * eps, atol=4 * eps)


def check_reductions(dtype: np.dtype[Any], op: str, shape: Shape, exactly: bool = True) -> None:
    """all_reduce, reduce and reduce_scatter, in every way to call them, on arrays of this shape."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    x, want = put(xs[rank]), reduced(op, xs)
    same(collectives.all_reduce(x, op), want, exactly)
    same(x, xs[rank])
    out = put(np.zeros_like(xs[rank]))
    assert collectives.all_reduce(x, op, out=out) is out
    same(out, want, exactly)
    work = collectives.all_reduce(x, op, async_op=True)
    x[...] = x  # would be a race before the wait in any other order
    same(work.wait(), want, exactly)
    assert work.wait() is work.wait()
    assert collectives.all_reduce(x, op, out=x) is x
    same(x, want, exactly)
    for dst in range(n):
        got = collectives.reduce(put(xs[rank]), dst, op)
        assert (got is None) == (rank != dst)
        if got is not None:
            same(got, want, exactly)
    for dim in range(len(shape)):
        xs = inputs(n, (*shape[:dim], n * shape[dim], *shape[dim + 1 :]), dtype, seed=dim)
        want = np.split(reduced(op, xs), n, dim)[rank]
        same(collectives.reduce_scatter(put(xs[rank]), op, dim=dim), want, exactly)
        out = put(np.zeros(want.shape, dtype))
        assert collectives.reduce_scatter(put(xs[rank]), op, dim=dim - len(shape), out=out) is out
        same(out, want, exactly)


def check_every_reduction(dtype: np.dtype[Any], shape: Shape, avg_exactly: bool) -> None:
    for op in REDUCTIONS:
        if takes(op, dtype):
            # A complex mean divides both parts, and NumPy by a complex number, which rounds otherwise.
            exactly = op != "avg" or (avg_exactly and dtype not in COMPLEXES)
            check_reductions(dtype, op, shape, exactly)


def check_movements(dtype: np.dtype[Any], shape: Shape) -> None:
    """What moves and does not reduce."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    x = put(xs[rank])
    for dim in range(max(len(shape), 1)):
        want = np.concatenate([np.atleast_1d(each) for each in xs], dim)
        same(collectives.all_gather(x, dim=dim), want)
        out = put(np.zeros_like(want))
        assert collectives.all_gather(x, dim=dim, out=out) is out
        same(out, want)
        got = collectives.gather(x, n - 1, dim=dim)
        assert (got is None) == (rank != n - 1)
        if got is not None:
            same(got, want)
    for src in range(n):
        same(collectives.broadcast(x, src), xs[src])
        out = put(xs[rank])
        assert collectives.broadcast(out if rank == src else None, src, out=out) is out
        same(out, xs[src])
    for dim in range(len(shape)):
        wide = inputs(n, (*shape[:dim], n * shape[dim], *shape[dim + 1 :]), dtype, seed=dim)
        parts = [np.split(each, n, dim) for each in wide]
        same(collectives.scatter(put(wide[rank]), n - 1, dim=dim), parts[n - 1][rank])
        out = put(np.zeros(shape, dtype))
        collectives.scatter(put(wide[0]) if rank == 0 else None, 0, dim=dim, out=out)
        same(out, parts[0][rank])
        for concat in range(len(shape)):
            want = np.concatenate([parts[other][rank] for other in range(n)], concat)
            same(collectives.all_to_all(put(wide[rank]), split_dim=dim, concat_dim=concat), want)


def check_uneven(dtype: np.dtype[Any]) -> None:
    """What is composed of exchanges."""
    rank, n = collectives.rank(), collectives.world_size()
    sizes = [(i * 2) % 5 for i in range(n)]
    xs = [inputs(n, (size, 2), dtype, seed=i)[i] for i, size in enumerate(sizes)]
    same(collectives.all_gather(put(xs[rank]), sizes=sizes), np.concatenate(xs))
    whole = inputs(n, (sum(sizes), 2), dtype)
    parts = [np.split(each, np.cumsum(sizes)[:-1]) for each in whole]
    same(collectives.scatter(put(whole[rank]), 0, sizes=sizes), parts[0][rank])
    same(
        collectives.reduce_scatter(put(whole[rank]), "sum", sizes=sizes),
        reduced("sum", [each[rank] for each in parts]),
    )
    got = collectives.all_to_all_single(put(whole[rank]), [sizes[rank]] * n, sizes)
    same(got, np.concatenate([each[rank] for each in parts]))
    xs = inputs(n, (2, 3), dtype)
    same(collectives.scan(put(xs[rank])), reduced("sum", xs[: rank + 1]))


def check_messages(dtype: np.dtype[Any], shape: Shape) -> None:
    """Around the ring, and to itself."""
    rank, n = collectives.rank(), collectives.world_size()
    xs = inputs(n, shape, dtype)
    before, after = (rank - 1) % n, (rank + 1) % n
    x = put(xs[rank])
    sends = [collectives.isend(x, after, tag=tag) for tag in (3, 0, 3)]
    out = put(np.zeros(shape, dtype))
    assert collectives.recv(src=before, out=out) is out
    same(out, xs[before])
    first, second = (collectives.irecv(src=before, tag=3, out=put(np.zeros(shape, dtype))) for _ in range(2))
    same(second.wait(), xs[before])
    same(first.wait(), xs[before])
    for send in sends:
        assert send.wait() is None


def check_lists(dtype: np.dtype[Any]) -> None:
    """Lists of arrays, together or each to its rank, and messages in a batch."""
    rank, n = collectives.rank(), collectives.world_size()
    shapes: tuple[Shape, ...] = ((3,), (2, 2), (70_000,))
    everyone = [[inputs(n, shape, dtype, seed=i)[r] for i, shape in enumerate(shapes)] for r in range(n)]
    mine = [put(x) for x in everyone[rank]]
    totals = [reduced("sum", [everyone[r][i] for r in range(n)]) for i in range(len(shapes))]
    for got, want in zip(collectives.all_reduce_coalesced(mine), totals, strict=True):
        same(got, want)
    work = collectives.all_reduce_coalesced(mine, async_op=True)
    for got, want in zip(work.wait(), totals, strict=True):
        same(got, want)
    for got, want in zip(collectives.broadcast_coalesced(mine, n - 1), everyone[-1], strict=True):
        same(got, want)
    for got, want in zip(collectives.all_gather_list(mine[0]), [x[0] for x in everyone], strict=True):
        same(got, want)
    parts = [inputs(n, (2,), dtype, seed=r) for r in range(n)]
    for got, want in zip(
        collectives.all_to_all_list([put(x) for x in parts[rank]]), [x[rank] for x in parts], strict=True
    ):
        same(got, want)
    out = put(np.zeros((2, 2), dtype))
    batch = [
        collectives.P2POp(collectives.isend, mine[1], (rank + 1) % n),
        collectives.P2POp(collectives.irecv, out, (rank - 1) % n),
    ]
    for work in collectives.batch_isend_irecv(batch):
        work.wait()
    same(out, everyone[(rank - 1) % n][1])
