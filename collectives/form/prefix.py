"""Scans over the ranks: each gets the reduction of the arrays of the ranks up to it.

Arguments, results and gradients are as in `symmetric`. Parts are combined in rank order on every transport.
"""

from __future__ import annotations

from typing import Literal, overload

from shardwise.collectives.adjoint.alike import Scan
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.scan import issue_scan
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor

__all__ = ["exscan", "scan"]


@overload
def scan(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    reverse: bool = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def scan(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    reverse: bool = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def scan(
    x: A,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    reverse: bool = False,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Reduce the `x` of this rank and of those before it, element by element.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
    op : {"sum", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    reverse : bool
        Begin at the last rank and go down.
    out : array or Tensor, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape and dtype of `x`; or a Work of it

    Raises
    ------
    DTypeError
        If `op` does not take the dtype, or is the average.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends at most twice the bytes of `x`. A rank waits for those before it; if `x` is large,
    for all.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return Scan.apply(x, op=op, group=group, exclusive=False, reverse=reverse)
    data, target, wrap = operands(x, out, "scan")
    work = issue_scan(data, op, group, False, reverse, target, wrap, async_op)
    return work if async_op else work.wait()


@overload
def exscan(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    reverse: bool = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def exscan(
    x: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    reverse: bool = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def exscan(
    x: A,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    reverse: bool = False,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Reduce the `x` of the ranks before this one, element by element.

    Parameters
    ----------
    x : array or Tensor, any shape, the same shape and dtype on all ranks
    op : {"sum", "prod", "min", "max", "band", "bor", "bxor"}
        As for `all_reduce`.
    group : ProcessGroup, optional
        By default all ranks.
    reverse : bool
        Begin at the last rank and go down.
    out : array or Tensor, optional
        Filled and returned; it may be `x`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape and dtype of `x`; or a Work of it
        On the first rank what leaves every number as it is: 0 for sums, 1 for products, the largest value for
        min, the lowest for max.

    Raises
    ------
    DTypeError
        If `op` does not take the dtype, or is the average.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    As for `scan`. The offset of this rank's rows in a global array is ``exscan(numpy.array(len(rows)))``.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return Scan.apply(x, op=op, group=group, exclusive=True, reverse=reverse)
    data, target, wrap = operands(x, out, "exscan")
    work = issue_scan(data, op, group, True, reverse, target, wrap, async_op)
    return work if async_op else work.wait()
