"""The collectives in which all ranks do the same.

Every rank of the group calls them, in the same order. Each returns its result and leaves its input alone,
unless ``out=`` names the array to fill, which may be the input. With ``async_op=True`` it returns a `Work` at
once, whose ``wait()`` gives the result; until then the input must not be written, nor `out` be read.

Tensors give Tensors, and are recorded: the backward of each is its adjoint (see `adjoint/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from shardwise.collectives.adjoint.alike import AllGather, AllReduce, ReduceScatter
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor

__all__ = ["all_gather", "all_reduce", "reduce_scatter"]


@overload
def all_reduce(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def all_reduce(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def all_reduce(
    x: A,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Reduce every rank's `x`, element by element.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        A sum of bools is their or, a product their and, as in NumPy. NaN goes through min and max.
        float16 and bfloat16 are reduced in float32 and rounded once.
    group : ProcessGroup, optional
        By default all ranks.
    out : array or Tensor, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape and dtype of `x`, bitwise the same on all ranks; or a Work of it

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
    if out is None and not async_op and isinstance(x, Tensor):
        return AllReduce.apply(x, op=op, group=group)
    data, target, wrap = operands(x, out, "all_reduce")
    work = issue_all_reduce(data, op, group, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def all_gather(
    x: A,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def all_gather(
    x: A,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def all_gather(
    x: A,
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    sizes: Sequence[int] | None = None,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Concatenate every rank's `x` along `dim`.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
        An array without dims counts as one of shape (1,).
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    sizes : sequence of int, optional
        The extent of every rank's `x` along `dim`, where they differ; the same on all ranks. Zeros may be
        among them.
    out : array or Tensor, optional
        Filled and returned; `x` may be this rank's part of it.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape of `x` with `dim` times ``group.size`` (or the sum of `sizes`), the same on all
    ranks; or a Work of it

    Raises
    ------
    ShapeError
        If there is no such dim, or `sizes` do not fit.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at least n - 1 times the bytes of `x`, or has others pass them on. All ranks wait for all.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return AllGather.apply(x, group=group, dim=dim, sizes=sizes)
    data, target, wrap = operands(x, out, "all_gather")
    work = issue_all_gather(data, group, dim, sizes, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def reduce_scatter(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def reduce_scatter(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    dim: int = ...,
    *,
    sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def reduce_scatter(
    x: A,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    dim: int = 0,
    *,
    sizes: Sequence[int] | None = None,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Reduce every rank's `x`, and keep this rank's part of the result along `dim`.

    Parameters
    ----------
    x : array or Tensor, the same shape and dtype on all ranks
        ``group.size`` divides the extent of `dim`, unless `sizes` are given.
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    dim : int
    sizes : sequence of int, optional
        The extent of every rank's part along `dim`, where they differ; the same on all ranks. Zeros may be
        among them.
    out : array or Tensor, optional
        Filled and returned; it may be this rank's part of `x`.
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
    DTypeError
        If `op` does not take the dtype.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at least (n - 1) / n times the bytes of `x`. All ranks wait for all.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return ReduceScatter.apply(x, op=op, group=group, dim=dim, sizes=sizes)
    data, target, wrap = operands(x, out, "reduce_scatter")
    work = issue_reduce_scatter(data, op, group, dim, sizes, target, wrap, async_op)
    return work if async_op else work.wait()
