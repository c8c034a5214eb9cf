"""The collectives in which one rank is special: it has what all get, or gets what all have.

Every rank of the group calls them, in the same order; ``src`` and ``dst`` are global ranks. Each returns its
result and leaves its input alone, unless ``out=`` names the array to fill, which may be the input. With
``async_op=True`` it returns a `Work` at once, whose ``wait()`` gives the result.

Tensors give Tensors, and are recorded: the backward of each is its adjoint (see `adjoint/`). Where an
array's function returns None, on ranks that get nothing, a Tensor's returns zeros, so that every rank's loss
can depend on it and every rank comes to the backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from shardwise.collectives.adjoint.rooted import Broadcast, Gather, Reduce, Scatter
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.rooted import issue_broadcast, issue_gather, issue_reduce, issue_scatter
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor

__all__ = ["broadcast", "gather", "reduce", "scatter"]


@overload
def broadcast(
    x: A | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def broadcast(
    x: A | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def broadcast(
    x: A | None,
    src: int = 0,
    group: ProcessGroup | None = None,
    *,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Give every rank the `x` of rank `src`.

    Parameters
    ----------
    x : array or Tensor, the same shape and dtype on all ranks
        Only that of `src` is read; the others say what comes. None on another rank that gives `out`.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    out : array or Tensor, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape and dtype of `x`; or a Work that gives it

    Raises
    ------
    CollectiveError
        If `src` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank but one sends at least the bytes of `x`, if they pass it on. A rank waits for `src`.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return Broadcast.apply(x, src=src, group=group)
    data, target, wrap = operands(x, out, "broadcast")
    work = issue_broadcast(data, src, group, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def reduce(
    x: A,
    dst: int = ...,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A | None: ...
@overload
def reduce(
    x: A,
    dst: int = ...,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A | None]: ...
def reduce(
    x: A,
    dst: int = 0,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A | None] | None:
    """Reduce every rank's `x` on rank `dst`.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
    dst : int
        Global rank.
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    out : array or Tensor, optional
        Filled and returned on `dst`, where it may be `x`; left alone on the others.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape and dtype of `x`, on `dst`, None on the others; or a Work that gives it

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
    if out is None and not async_op and isinstance(x, Tensor):
        return Reduce.apply(x, dst=dst, op=op, group=group)
    data, target, wrap = operands(x, out, "reduce")
    work = issue_reduce(data, dst, op, group, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def gather(
    x: A,
    dst: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A | None: ...
@overload
def gather(
    x: A,
    dst: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A | None]: ...
def gather(
    x: A,
    dst: int = 0,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    sizes: Sequence[int] | None = None,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A | None] | None:
    """Concatenate every rank's `x` along `dim` on rank `dst`.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
        An array without dims counts as one of shape (1,).
    dst : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    sizes : sequence of int, optional
        The extent of every rank's `x` along `dim`, where they differ; the same on all ranks.
    out : array or Tensor, optional
        Filled and returned on `dst`; left alone on the others.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape of `x` with `dim` times ``group.size`` (or the sum of `sizes`), on `dst`, else
    None; or a Work of it

    Raises
    ------
    ShapeError
        If there is no such dim, or `sizes` do not fit.
    CollectiveError
        If `dst` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank but `dst` sends the bytes of `x`. Rank `dst` waits for all.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return Gather.apply(x, dst=dst, group=group, dim=dim, sizes=sizes)
    data, target, wrap = operands(x, out, "gather")
    work = issue_gather(data, dst, group, dim, sizes, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def scatter(
    x: A | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def scatter(
    x: A | None,
    src: int = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def scatter(
    x: A | None,
    src: int = 0,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    sizes: Sequence[int] | None = None,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Give every rank its part of the `x` of rank `src` along `dim`.

    Parameters
    ----------
    x : array or Tensor, the same shape and dtype on all ranks
        Only that of `src` is read; the others say what comes. None on another rank that gives `out`.
        ``group.size`` divides the extent of `dim`, unless `sizes` are given.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    sizes : sequence of int, optional
        The extent of every rank's part along `dim`, where they differ; the same on all ranks.
    out : array or Tensor, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape of `x` with `dim` divided by ``group.size`` (or this rank's of `sizes`); or a Work
    that gives it

    Raises
    ------
    ShapeError
        If there is no such dim, the ranks cannot share it equally, or `sizes` do not fit.
    CollectiveError
        If `src` or this rank is not in the group, or the operation failed.

    Notes
    -----
    Rank `src` sends (n - 1) / n times the bytes of `x`. A rank waits for `src`.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return Scatter.apply(x, src=src, group=group, dim=dim, sizes=sizes)
    data, target, wrap = operands(x, out, "scatter")
    work = issue_scatter(data, src, group, dim, sizes, target, wrap, async_op)
    return work if async_op else work.wait()
