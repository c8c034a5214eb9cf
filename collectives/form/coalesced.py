"""Collectives on lists of arrays: as one operation for all small arrays of a dtype.

An operation takes as long as to copy some hundred KiB, so small arrays go together in one flat array; large
ones go by themselves. Tensors are recorded as in `symmetric`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

from shardwise.backend.array import Shape
from shardwise.collectives.context import entered_group
from shardwise.collectives.form.bundle import check_lists, coalesced, cut_flat
from shardwise.collectives.form.operand import A, as_array, joined
from shardwise.collectives.form.rooted import broadcast
from shardwise.collectives.form.symmetric import all_gather, all_reduce, reduce_scatter
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.check import check_dim, check_parts, check_root
from shardwise.collectives.layout import concatenated, divided, stretches
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.work import Work

__all__ = [
    "all_gather_coalesced",
    "all_reduce_coalesced",
    "broadcast_coalesced",
    "reduce_scatter_coalesced",
]


@overload
def all_reduce_coalesced(
    xs: Sequence[A],
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[False] = ...,
) -> list[A]: ...
@overload
def all_reduce_coalesced(
    xs: Sequence[A],
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[True],
) -> Work[list[A]]: ...
def all_reduce_coalesced(
    xs: Sequence[A],
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    out: Sequence[A] | None = None,
    async_op: bool = False,
) -> list[A] | Work[list[A]]:
    """Reduce several arrays of every rank, each as `all_reduce` does.

    Parameters
    ----------
    xs : sequence of arrays or Tensors, of any shapes and dtypes, the same on all ranks
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
    group : ProcessGroup, optional
        By default all ranks.
    out : sequence of arrays or Tensors, optional
        Filled and returned; they may be `xs`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    list of arrays or Tensors, in the order of `xs`; or a Work of it

    Raises
    ------
    ShapeError
        If `out` does not fit.
    DTypeError
        If `op` does not take a dtype.
    CollectiveError
        If this rank is not in the group, or an operation failed.
    """
    group = entered_group(group, "all_reduce_coalesced")
    arrays = [as_array(x) for x in xs]
    check_lists(arrays, op, [x.shape for x in arrays], out, "all_reduce_coalesced", group)
    return coalesced(
        arrays,
        out,
        async_op,
        group,
        lambda x, room, wait: (
            all_reduce(x, op, group, out=room) if wait else all_reduce(x, op, group, out=room, async_op=True)
        ),
        joined,
        cut_flat,
    )


@overload
def all_gather_coalesced(
    xs: Sequence[A],
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[False] = ...,
) -> list[A]: ...
@overload
def all_gather_coalesced(
    xs: Sequence[A],
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[True],
) -> Work[list[A]]: ...
def all_gather_coalesced(
    xs: Sequence[A],
    group: ProcessGroup | None = None,
    *,
    out: Sequence[A] | None = None,
    async_op: bool = False,
) -> list[A] | Work[list[A]]:
    """Concatenate several arrays of every rank along dim 0, each as `all_gather` does.

    Parameters
    ----------
    xs : sequence of arrays or Tensors, of any shapes and dtypes, the same on all ranks
    group : ProcessGroup, optional
        By default all ranks.
    out : sequence of arrays or Tensors, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    list of arrays or Tensors, in the order of `xs`; or a Work of it

    Raises
    ------
    ShapeError
        If `out` does not fit.
    CollectiveError
        If this rank is not in the group, or an operation failed.
    """
    group = entered_group(group, "all_gather_coalesced")
    n, arrays = group.size, [as_array(x) for x in xs]
    arrays = [x if x.shape else x.reshape(1) for x in arrays]
    shapes = [concatenated(x.shape, n, 0) for x in arrays]
    check_lists(arrays, None, shapes, out, "all_gather_coalesced", group)

    def cut(flat: Any, whole: Sequence[Shape]) -> list[Any]:
        rows = flat.reshape(n, -1)
        places = stretches([math.prod(shape) // n for shape in whole])
        return [rows[:, slice(*part)].reshape(shape) for part, shape in zip(places, whole, strict=True)]

    return coalesced(
        arrays,
        out,
        async_op,
        group,
        lambda x, room, wait: (
            all_gather(x, group, out=room) if wait else all_gather(x, group, out=room, async_op=True)
        ),
        joined,
        cut,
        lambda x: concatenated(x, n, 0),
    )


@overload
def reduce_scatter_coalesced(
    xs: Sequence[A],
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[False] = ...,
) -> list[A]: ...
@overload
def reduce_scatter_coalesced(
    xs: Sequence[A],
    op: Reduction = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[True],
) -> Work[list[A]]: ...
def reduce_scatter_coalesced(
    xs: Sequence[A],
    op: Reduction = "sum",
    group: ProcessGroup | None = None,
    *,
    out: Sequence[A] | None = None,
    async_op: bool = False,
) -> list[A] | Work[list[A]]:
    """Reduce several arrays of every rank and keep this rank's parts along dim 0, as `reduce_scatter`.

    Parameters
    ----------
    xs : sequence of arrays or Tensors, of any shapes and dtypes, the same on all ranks
    op : {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"}
    group : ProcessGroup, optional
        By default all ranks.
    out : sequence of arrays or Tensors, optional
        Filled and returned.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    list of arrays or Tensors, in the order of `xs`; or a Work of it

    Raises
    ------
    ShapeError
        If the ranks cannot share a dim 0 equally, or `out` does not fit.
    DTypeError
        If `op` does not take a dtype.
    CollectiveError
        If this rank is not in the group, or an operation failed.
    """
    name = "reduce_scatter_coalesced"
    group = entered_group(group, name)
    n, arrays = group.size, [as_array(x) for x in xs]
    for x in arrays:
        check_dim(0, len(x.shape), name, group)
        check_parts(x.shape, 0, name, group)
    check_lists(arrays, op, [divided(x.shape, n, 0) for x in arrays], out, name, group)

    def join(parts: Sequence[Any]) -> Any:
        rows = [x.reshape(n, -1) for x in parts]
        return joined([row[i] for i in range(n) for row in rows])

    return coalesced(
        arrays,
        out,
        async_op,
        group,
        lambda x, room, wait: (
            reduce_scatter(x, op, group, out=room)
            if wait
            else reduce_scatter(x, op, group, out=room, async_op=True)
        ),
        join,
        cut_flat,
        lambda x: divided(x, n, 0),
    )


@overload
def broadcast_coalesced(
    xs: Sequence[A],
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[False] = ...,
) -> list[A]: ...
@overload
def broadcast_coalesced(
    xs: Sequence[A],
    src: int = ...,
    group: ProcessGroup | None = ...,
    *,
    out: Sequence[A] | None = ...,
    async_op: Literal[True],
) -> Work[list[A]]: ...
def broadcast_coalesced(
    xs: Sequence[A],
    src: int = 0,
    group: ProcessGroup | None = None,
    *,
    out: Sequence[A] | None = None,
    async_op: bool = False,
) -> list[A] | Work[list[A]]:
    """Give every rank several arrays of rank `src`, each as `broadcast` does.

    Parameters
    ----------
    xs : sequence of arrays or Tensors, of any shapes and dtypes, the same on all ranks
        Only those of `src` are read; the others say what comes.
    src : int
        Global rank.
    group : ProcessGroup, optional
        By default all ranks.
    out : sequence of arrays or Tensors, optional
        Filled and returned; they may be `xs`.
    async_op : bool
        Return a `Work` without waiting.

    Returns
    -------
    list of arrays or Tensors, in the order of `xs`; or a Work of it

    Raises
    ------
    ShapeError
        If `out` does not fit.
    CollectiveError
        If `src` or this rank is not in the group, or an operation failed.
    """
    group = entered_group(group, "broadcast_coalesced")
    check_root(src, "src", "broadcast_coalesced", group)
    arrays = [as_array(x) for x in xs]
    check_lists(arrays, None, [x.shape for x in arrays], out, "broadcast_coalesced", group)
    return coalesced(
        arrays,
        out,
        async_op,
        group,
        lambda x, room, wait: (
            broadcast(x, src, group, out=room) if wait else broadcast(x, src, group, out=room, async_op=True)
        ),
        joined,
        cut_flat,
    )
