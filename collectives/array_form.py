"""The collectives on arrays: functions that every rank of a group calls, in the same order.

Each returns its result and leaves its input alone, unless ``out=`` names the array to fill, which may be
the input. With ``async_op=True`` it returns a `Work` at once, whose ``wait()`` gives the result; until then
the input must not be written, nor `out` be read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, overload

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.collectives.check import check_dim, check_output, check_parts, check_root, readable
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.layout import concatenated, divided, join, split
from shardwise.collectives.reduction import ReduceOp, check_reduction
from shardwise.collectives.transport import Channel, Pending
from shardwise.collectives.work import Work
from shardwise.collectives.world import get_world

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

T = TypeVar("T")


@overload
def all_reduce(
    x: Array,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def all_reduce(
    x: Array,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def all_reduce(
    x: Array,
    op: ReduceOp = "sum",
    group: ProcessGroup | None = None,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Reduce every rank's `x`, element by element.

    Parameters
    ----------
    x : array, any shape, the same shape and dtype on all ranks
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        A sum of bools is their or, a product their and, as in NumPy. NaN goes through min and max.
        float16 and bfloat16 are reduced in float32 and rounded once.
    group : ProcessGroup, optional
        By default all ranks.
    out : array, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape and dtype of `x`, bitwise the same on all ranks; or a Work that gives it

    Raises
    ------
    DTypeError
        If `op` does not take the dtype.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at least 2 (n - 1) / n times the bytes of `x`. All ranks wait for all.
    """
    group = _entered(group, "all_reduce")
    x = readable(x, "all_reduce", lambda: group.where("all_reduce"))
    check_reduction(op, x.dtype, lambda: group.where("all_reduce"))
    filled, finish = _output(out, x.shape, x, "all_reduce", group)
    return _run("all_reduce", group, x, lambda channel: channel.all_reduce(x, filled, op), finish, async_op)


@overload
def all_gather(
    x: Array,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def all_gather(
    x: Array,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def all_gather(
    x: Array,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Concatenate every rank's `x` along `dim`.

    Parameters
    ----------
    x : array, any shape, the same shape and dtype on all ranks
        An array without dims counts as one of shape (1,).
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    out : array, optional
        Filled and returned; `x` may be this rank's part of it.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape of `x` with `dim` times ``group.size``, the same on all ranks; or a Work that gives it

    Raises
    ------
    ShapeError
        If there is no such dim.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at least n - 1 times the bytes of `x`, or has others pass them on. All ranks wait for all.
    """
    group = _entered(group, "all_gather")
    x = readable(x, "all_gather", lambda: group.where("all_gather"))
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "all_gather", group)
    rows, finish = _joined(out, x, dim, "all_gather", group)
    return _run("all_gather", group, x, lambda channel: channel.all_gather(x, rows), finish, async_op)


@overload
def reduce_scatter(
    x: Array,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def reduce_scatter(
    x: Array,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def reduce_scatter(
    x: Array,
    op: ReduceOp = "sum",
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Reduce every rank's `x`, and keep this rank's part of the result along `dim`.

    Parameters
    ----------
    x : array, the same shape and dtype on all ranks
        ``group.size`` divides the extent of `dim`.
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    out : array, optional
        Filled and returned; it may be this rank's part of `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape of `x` with `dim` divided by ``group.size``; or a Work that gives it

    Raises
    ------
    ShapeError
        If there is no such dim, or the ranks cannot share it equally.
    DTypeError
        If `op` does not take the dtype.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at least (n - 1) / n times the bytes of `x`. All ranks wait for all.
    """
    group = _entered(group, "reduce_scatter")
    x = readable(x, "reduce_scatter", lambda: group.where("reduce_scatter"))
    check_reduction(op, x.dtype, lambda: group.where("reduce_scatter"))
    dim = check_dim(dim, x.ndim, "reduce_scatter", group)
    check_parts(x.shape, dim, "reduce_scatter", group)
    rows = split(x, group.size, dim)
    filled, finish = _output(out, divided(x.shape, group.size, dim), rows, "reduce_scatter", group)
    return _run(
        "reduce_scatter", group, x, lambda channel: channel.reduce_scatter(rows, filled, op), finish, async_op
    )


@overload
def all_to_all(
    x: Array,
    group: ProcessGroup | None = ...,
    split_dim: int = ...,
    concat_dim: int | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def all_to_all(
    x: Array,
    group: ProcessGroup | None = ...,
    split_dim: int = ...,
    concat_dim: int | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def all_to_all(
    x: Array,
    group: ProcessGroup | None = None,
    split_dim: int = 0,
    concat_dim: int | None = None,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Give part i of `x` along `split_dim` to rank i, and concatenate what comes back along `concat_dim`.

    Parameters
    ----------
    x : array, the same shape and dtype on all ranks
        ``group.size`` divides the extent of `split_dim`.
    group : ProcessGroup, optional
        By default all ranks.
    split_dim : int
    concat_dim : int, optional
        By default `split_dim`.
    out : array, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape of `x`, `split_dim` divided and `concat_dim` times ``group.size``; or a Work that gives it

    Raises
    ------
    ShapeError
        If there is no such dim, or the ranks cannot share it equally.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends (n - 1) / n times the bytes of `x`. All ranks wait for all.
    """
    group = _entered(group, "all_to_all")
    x = readable(x, "all_to_all", lambda: group.where("all_to_all"))
    split_dim = check_dim(split_dim, x.ndim, "all_to_all", group, "split_dim")
    concat_dim = (
        split_dim if concat_dim is None else check_dim(concat_dim, x.ndim, "all_to_all", group, "concat_dim")
    )
    check_parts(x.shape, split_dim, "all_to_all", group)
    sent = split(x, group.size, split_dim)
    if out is not None and np.may_share_memory(sent, out):
        sent = sent.copy()
    rows, finish = _joined(out, sent[0, ...], concat_dim, "all_to_all", group)
    return _run("all_to_all", group, x, lambda channel: channel.all_to_all(sent, rows), finish, async_op)


@overload
def broadcast(
    x: Array | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def broadcast(
    x: Array | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def broadcast(
    x: Array | None,
    src: int = 0,
    group: ProcessGroup | None = None,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Give every rank the `x` of rank `src`.

    Parameters
    ----------
    x : array, the same shape and dtype on all ranks
        Only that of `src` is read; the others say what comes. None on another rank that gives `out`.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    out : array, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape and dtype of `x`; or a Work that gives it

    Raises
    ------
    CollectiveError
        If `src` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank but one sends at least the bytes of `x`, if they pass it on. A rank waits for `src`.
    """
    group = _entered(group, "broadcast")
    root = check_root(src, "src", "broadcast", group)
    x = readable(_template(x, out, "broadcast", group), "broadcast", lambda: group.where("broadcast"))
    filled, finish = _output(out, x.shape, x, "broadcast", group)
    if group.rank == root and filled is not x:
        np.copyto(filled, x)
    return _run("broadcast", group, x, lambda channel: channel.broadcast(filled, root), finish, async_op)


@overload
def reduce(
    x: Array,
    dst: int = ...,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array | None: ...
@overload
def reduce(
    x: Array,
    dst: int = ...,
    op: ReduceOp = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array | None]: ...
def reduce(
    x: Array,
    dst: int = 0,
    op: ReduceOp = "sum",
    group: ProcessGroup | None = None,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array | None] | None:
    """Reduce every rank's `x` on rank `dst`.

    Parameters
    ----------
    x : array, any shape, the same shape and dtype on all ranks
    dst : int
        Global rank.
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    out : array, optional
        Filled and returned on `dst`, where it may be `x`; left alone on the others.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape and dtype of `x`, on `dst`, None on the others; or a Work that gives it

    Raises
    ------
    DTypeError
        If `op` does not take the dtype.
    CollectiveError
        If `dst` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank but one sends at least the bytes of `x`. Rank `dst` waits for all.
    """
    group = _entered(group, "reduce")
    root = check_root(dst, "dst", "reduce", group)
    x = readable(x, "reduce", lambda: group.where("reduce"))
    check_reduction(op, x.dtype, lambda: group.where("reduce"))
    if group.rank != root:
        return _run("reduce", group, x, lambda channel: channel.reduce(x, None, op, root), _nothing, async_op)
    filled, finish = _output(out, x.shape, x, "reduce", group)
    return _run("reduce", group, x, lambda channel: channel.reduce(x, filled, op, root), finish, async_op)


@overload
def gather(
    x: Array,
    dst: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array | None: ...
@overload
def gather(
    x: Array,
    dst: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array | None]: ...
def gather(
    x: Array,
    dst: int = 0,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array | None] | None:
    """Concatenate every rank's `x` along `dim` on rank `dst`.

    Parameters
    ----------
    x : array, any shape, the same shape and dtype on all ranks
        An array without dims counts as one of shape (1,).
    dst : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    out : array, optional
        Filled and returned on `dst`; left alone on the others.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape of `x` with `dim` times ``group.size``, on `dst`, else None; or a Work that gives it

    Raises
    ------
    ShapeError
        If there is no such dim.
    CollectiveError
        If `dst` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank but `dst` sends the bytes of `x`. Rank `dst` waits for all.
    """
    group = _entered(group, "gather")
    root = check_root(dst, "dst", "gather", group)
    x = readable(x, "gather", lambda: group.where("gather"))
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "gather", group)
    if group.rank != root:
        return _run("gather", group, x, lambda channel: channel.gather(x, None, root), _nothing, async_op)
    rows, finish = _joined(out, x, dim, "gather", group)
    return _run("gather", group, x, lambda channel: channel.gather(x, rows, root), finish, async_op)


@overload
def scatter(
    x: Array | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[False] = ...,
) -> Array: ...
@overload
def scatter(
    x: Array | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    out: Array | None = ...,
    async_op: Literal[True],
) -> Work[Array]: ...
def scatter(
    x: Array | None,
    src: int = 0,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    out: Array | None = None,
    async_op: bool = False,
) -> Array | Work[Array]:
    """Give every rank its part of the `x` of rank `src` along `dim`.

    Parameters
    ----------
    x : array, the same shape and dtype on all ranks
        Only that of `src` is read; the others say what comes. None on another rank that gives `out`.
        ``group.size`` divides the extent of `dim`.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    out : array, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array, shape of `x` with `dim` divided by ``group.size``; or a Work that gives it

    Raises
    ------
    ShapeError
        If there is no such dim, or the ranks cannot share it equally.
    CollectiveError
        If `src` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Rank `src` sends (n - 1) / n times the bytes of `x`. A rank waits for `src`.
    """
    group = _entered(group, "scatter")
    root = check_root(src, "src", "scatter", group)
    if x is None and out is not None and group.rank != root:
        filled, finish = _output(out, out.shape, np.empty(0, out.dtype), "scatter", group)
        return _run(
            "scatter", group, filled, lambda channel: channel.scatter(None, filled, root), finish, async_op
        )
    x = readable(_template(x, None, "scatter", group), "scatter", lambda: group.where("scatter"))
    dim = check_dim(dim, x.ndim, "scatter", group)
    check_parts(x.shape, dim, "scatter", group)
    rows = split(x, group.size, dim) if group.rank == root else None
    shape = divided(x.shape, group.size, dim)
    filled, finish = _output(out, shape, np.empty(0, x.dtype) if rows is None else rows, "scatter", group)
    return _run("scatter", group, x, lambda channel: channel.scatter(rows, filled, root), finish, async_op)


def barrier(group: ProcessGroup | None = None, timeout: float | None = None) -> None:
    """Wait until all ranks of the group have called it.

    Parameters
    ----------
    group : ProcessGroup, optional
        By default all ranks.
    timeout : float, optional
        Seconds; by default that of the group.

    Raises
    ------
    CollectiveTimeoutError
        If they have not all come in time.
    CollectiveError
        If this rank is not in the group.
    """
    group = _entered(group, "barrier")
    work = group.submit("barrier", _BYTE, (), 0, lambda channel: channel.barrier(), _nothing, False)
    work.wait(timeout)


_BYTE = np.dtype(np.uint8)


def _entered(group: ProcessGroup | None, op: str) -> ProcessGroup:
    group = group if group is not None else get_world().everyone
    group.member(op)
    return group


def _nothing() -> None:
    return None


def _run(
    op: str,
    group: ProcessGroup,
    x: Array,
    start: Callable[[Channel], Pending],
    finish: Callable[[], T],
    async_op: bool,
) -> T | Work[T]:
    work = group.submit(op, x.dtype, x.shape, x.nbytes, start, finish, async_op)
    return work if async_op else work.wait()


def _template(x: Array | None, out: Array | None, op: str, group: ProcessGroup) -> Array:
    """Give the array that says what comes."""
    if x is not None:
        return x
    if out is not None:
        return out
    raise ShapeError(
        f"{group.where(op)}: neither x nor out is given; only a rank that is not src may leave out x, "
        f"and it gives out= to say which shape and dtype comes."
    )


def _output(
    out: Array | None, shape: tuple[int, ...], x: Array, op: str, group: ProcessGroup
) -> tuple[Array, Callable[[], Array]]:
    """Give a contiguous array for a transport to fill, and what makes the result of it.

    It is `out` itself where that will do: contiguous, and apart from `x` or exactly the place that an
    operation may overwrite, which is `x`, or this rank's row of it. `x` itself is given for the former.
    """
    if out is None:
        fresh = np.empty(shape, x.dtype)
        return fresh, lambda: fresh
    check_output(out, shape, x.dtype, lambda: group.where(op))
    if out.flags.c_contiguous and out.dtype.isnative:
        if not np.may_share_memory(out, x):
            return out, lambda: out
        if _same(out, x):
            return x, lambda: out
        if x.ndim == out.ndim + 1 and group.rank is not None and _same(out, x[group.rank, ...]):
            return out, lambda: out
    buffer = np.empty(shape, x.dtype)
    return buffer, lambda: _copied(buffer, out)


def _joined(
    out: Array | None, x: Array, dim: int, op: str, group: ProcessGroup
) -> tuple[Array, Callable[[], Array]]:
    """Give a contiguous array (n, ``*x.shape``) for a transport to fill, and what makes the result of it."""
    shape = (group.size, *x.shape)
    if out is None:
        fresh = np.empty(shape, x.dtype)
        return fresh, lambda: np.ascontiguousarray(join(fresh, dim))
    check_output(out, concatenated(x.shape, group.size, dim), x.dtype, lambda: group.where(op))
    if dim == 0 and out.flags.c_contiguous and out.dtype.isnative:
        rows = out.reshape(shape)
        if not np.may_share_memory(out, x) or (group.rank is not None and _same(x, rows[group.rank, ...])):
            return rows, lambda: out
    buffer = np.empty(shape, x.dtype)
    return buffer, lambda: _copied(join(buffer, dim), out)


def _same(a: Array, b: Array) -> bool:
    """Say whether two contiguous arrays are the same memory."""
    return a.nbytes == b.nbytes and a.ctypes.data == b.ctypes.data


def _copied(source: Array, out: Array) -> Array:
    np.copyto(out, source)
    return out
