"""Collectives by PyTorch's names and in its order of arguments, which fill an array that is given.

They are not recorded; `all_gather` and `reduce_scatter` are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

from shardwise.backend.array import Array
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.alike import issue_all_gather, issue_reduce_scatter
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.work import Work

__all__ = [
    "all_gather_into_tensor",
    "all_gather_single",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
]


@overload
def all_gather_into_tensor(
    output_tensor: A, input_tensor: A, group: ProcessGroup | None = ..., async_op: Literal[False] = ...
) -> None: ...
@overload
def all_gather_into_tensor(
    output_tensor: A, input_tensor: A, group: ProcessGroup | None = ..., *, async_op: Literal[True]
) -> Work[A]: ...
def all_gather_into_tensor(
    output_tensor: A, input_tensor: A, group: ProcessGroup | None = None, async_op: bool = False
) -> Work[A] | None:
    """Fill `output_tensor` with every rank's `input_tensor`; ``all_gather(x, group, out=y)``.

    Parameters
    ----------
    output_tensor : array or Tensor
        Shape of `input_tensor` with dim 0 times ``group.size``, or with a dim of ``group.size`` in front.
    input_tensor : array or Tensor, the same shape and dtype on all ranks
    group : ProcessGroup, optional
        By default all ranks.
    async_op : bool
        Return a `Work` without waiting.

    Raises
    ------
    ShapeError, DTypeError
        If `output_tensor` does not fit.
    CollectiveError
        If this rank is not in the group, or the operation failed.
    """
    group = entered_group(group, "all_gather_into_tensor")
    data: Array
    target: Array | None
    wrap: Callable[[Array], A]
    data, target, wrap = operands(input_tensor, output_tensor, "all_gather_into_tensor")
    stacked = target is not None and data.ndim > 0 and target.shape == (group.size, *data.shape)
    work = issue_all_gather(data[None] if stacked else data, group, 0, None, target, wrap, async_op)
    if async_op:
        return work
    work.wait()
    return None


@overload
def reduce_scatter_tensor(
    output: A,
    input: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    async_op: Literal[False] = ...,
) -> None: ...
@overload
def reduce_scatter_tensor(
    output: A,
    input: A,
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    async_op: Literal[True],
) -> Work[A]: ...
def reduce_scatter_tensor(
    output: A,
    input: A,
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work[A] | None:
    """Fill `output` with this rank's part of the reduction: ``reduce_scatter(input, op, group, out=output)``.

    Parameters
    ----------
    output : array or Tensor
    input : array or Tensor, the same shape and dtype on all ranks
        Shape of `output` with dim 0 times ``group.size``, or with a dim of ``group.size`` in front.
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
    group : ProcessGroup, optional
        By default all ranks.
    async_op : bool
        Return a `Work` without waiting.

    Raises
    ------
    ShapeError, DTypeError
        If `output` does not fit, or `op` does not take the dtype.
    CollectiveError
        If this rank is not in the group, or the operation failed.
    """
    group = entered_group(group, "reduce_scatter_tensor")
    data: Array
    target: Array | None
    wrap: Callable[[Array], A]
    data, target, wrap = operands(input, output, "reduce_scatter_tensor")
    if target is not None and data.ndim > target.ndim:
        target = target[None]
    work = issue_reduce_scatter(data, op, group, 0, None, target, wrap, async_op)
    if async_op:
        return work
    work.wait()
    return None


# What PyTorch calls them from 2.13 on.
all_gather_single = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_tensor
