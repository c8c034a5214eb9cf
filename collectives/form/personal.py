"""The collectives in which every rank has a part for every other.

Arguments, results and gradients are as in `symmetric`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from shardwise.collectives.adjoint.swap import AllToAll, AllToAllSingle
from shardwise.collectives.form.operand import A, operands
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.swap import issue_all_to_all, issue_all_to_all_single
from shardwise.collectives.work import Work
from shardwise.tensor import Tensor

__all__ = ["all_to_all", "all_to_all_single"]


@overload
def all_to_all(
    x: A,
    group: ProcessGroup | None = ...,
    split_dim: int = ...,
    concat_dim: int | None = ...,
    *,
    split_sizes: Sequence[int] | None = ...,
    concat_sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def all_to_all(
    x: A,
    group: ProcessGroup | None = ...,
    split_dim: int = ...,
    concat_dim: int | None = ...,
    *,
    split_sizes: Sequence[int] | None = ...,
    concat_sizes: Sequence[int] | None = ...,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def all_to_all(
    x: A,
    group: ProcessGroup | None = None,
    split_dim: int = 0,
    concat_dim: int | None = None,
    *,
    split_sizes: Sequence[int] | None = None,
    concat_sizes: Sequence[int] | None = None,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Give part i of `x` along `split_dim` to rank i, and concatenate what comes back along `concat_dim`.

    Parameters
    ----------
    x : array or Tensor, the same shape and dtype on all ranks
        ``group.size`` divides the extent of `split_dim`, unless `split_sizes` are given.
    group : ProcessGroup, optional
        By default all ranks.
    split_dim : int
    concat_dim : int, optional
        By default `split_dim`.
    split_sizes : sequence of int, optional
        The extent along `split_dim` of the part for each rank, where they differ; the same on all ranks.
    concat_sizes : sequence of int, optional
        The extent along `concat_dim` of what each rank has, where they differ; the same on all ranks.
    out : array or Tensor, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape of `x`, `split_dim` divided and `concat_dim` times ``group.size``, or as the sizes
    say; or a Work of it

    Raises
    ------
    ShapeError
        If there is no such dim, the ranks cannot share it equally, or the sizes do not fit.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends (n - 1) / n times the bytes of `x`. All ranks wait for all.
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return AllToAll.apply(
            x,
            group=group,
            split_dim=split_dim,
            concat_dim=concat_dim,
            split_sizes=split_sizes,
            concat_sizes=concat_sizes,
        )
    data, target, wrap = operands(x, out, "all_to_all")
    work = issue_all_to_all(
        data, group, split_dim, concat_dim, split_sizes, concat_sizes, target, wrap, async_op
    )
    return work if async_op else work.wait()


@overload
def all_to_all_single(
    x: A,
    output_split_sizes: Sequence[int] | None = ...,
    input_split_sizes: Sequence[int] | None = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[False] = ...,
) -> A: ...
@overload
def all_to_all_single(
    x: A,
    output_split_sizes: Sequence[int] | None = ...,
    input_split_sizes: Sequence[int] | None = ...,
    group: ProcessGroup | None = ...,
    *,
    out: A | None = ...,
    async_op: Literal[True],
) -> Work[A]: ...
def all_to_all_single(
    x: A,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    *,
    out: A | None = None,
    async_op: bool = False,
) -> A | Work[A]:
    """Give each rank its stretch of dim 0 of `x`, and concatenate what comes back, in rank order.

    Parameters
    ----------
    x : array or Tensor, at least one dim; the same dtype, and the same shape but for dim 0, on all ranks
    output_split_sizes : sequence of int, optional
        How much of dim 0 comes from each rank: what that rank has for this one in its `input_split_sizes`.
        By default as much from each as goes to each, or the equal parts of `out`.
    input_split_sizes : sequence of int, optional
        How much of dim 0 goes to each rank; by default equal parts. Each rank has lists of its own; zeros
        may be among them.
    group : ProcessGroup, optional
        By default all ranks.
    out : array or Tensor, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    array or Tensor, shape of `x`, with the sum of `output_split_sizes` as dim 0; or a Work of it

    Raises
    ------
    ShapeError
        If the sizes do not fit `x` or the group.
    CollectiveMismatchError
        If a rank sends more or less than the other one receives.
    CollectiveError
        If this rank is not in the group, or the operation failed.

    Notes
    -----
    Each rank sends what it has for others, and waits for all that send it something.

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.collectives import all_to_all_single, run_threads
    >>> def body(rank):
    ...     mine = np.array([[10, 11, 12], [20, 21, 22]][rank])
    ...     sent, came = [[2, 1], [0, 3]][rank], [[2, 0], [1, 3]][rank]
    ...     return all_to_all_single(mine, came, sent).tolist()
    >>> run_threads(body, 2)
    [[10, 11], [12, 20, 21, 22]]
    """
    if out is None and not async_op and isinstance(x, Tensor):
        return AllToAllSingle.apply(
            x,
            output_split_sizes=output_split_sizes,
            input_split_sizes=input_split_sizes,
            group=group,
        )
    data, target, wrap = operands(x, out, "all_to_all_single")
    work = issue_all_to_all_single(data, output_split_sizes, input_split_sizes, group, target, wrap, async_op)
    return work if async_op else work.wait()
