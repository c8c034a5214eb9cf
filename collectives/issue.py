"""The collectives on arrays: checked, and issued in the lane of their group.

What the public functions add is in `symmetric.py` and `rooted.py`, where they are described. Here each
returns its `Work` at once. `wrap` makes the result of the array; `background` says that it must advance while
nobody waits for it. A `ShapeArray` moves nothing and gives the shape and the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.select import get_backend
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.buffer import output, output_rows, readable
from shardwise.collectives.check import check_dim, check_parts, check_root
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.layout import concatenated, divided, split
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import ReduceOp, check_reduction
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work
from shardwise.collectives.world import entered_group

__all__ = [
    "issue_all_gather",
    "issue_all_reduce",
    "issue_all_to_all",
    "issue_barrier",
    "issue_broadcast",
    "issue_gather",
    "issue_reduce",
    "issue_reduce_scatter",
    "issue_scatter",
]

T = TypeVar("T")

Wrap = Callable[[Array], T]


def issue_all_reduce(
    x: Array, op: ReduceOp, group: ProcessGroup | None, out: Array | None, wrap: Wrap[T], background: bool
) -> Work[T]:
    """Begin to reduce every rank's `x`."""
    group = entered_group(group, "all_reduce")
    x = _given(x, "all_reduce", group)
    check_reduction(op, x.dtype, lambda: group.where("all_reduce"))
    if isinstance(x, ShapeArray):
        return _dry("all_reduce", group, x, x.shape, wrap)
    filled, finish = output(out, x.shape, x, "all_reduce", group, wrap)
    return _submit("all_reduce", group, x, lambda on: on.all_reduce(x, filled, op), finish, background)


def issue_all_gather(
    x: Array, group: ProcessGroup | None, dim: int, out: Array | None, wrap: Wrap[T], background: bool
) -> Work[T]:
    """Begin to concatenate every rank's `x`."""
    group = entered_group(group, "all_gather")
    x = _given(x, "all_gather", group)
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "all_gather", group)
    if isinstance(x, ShapeArray):
        return _dry("all_gather", group, x, concatenated(x.shape, group.size, dim), wrap)
    rows, finish = output_rows(out, x, dim, "all_gather", group, wrap)
    return _submit("all_gather", group, x, lambda on: on.all_gather(x, rows), finish, background)


def issue_reduce_scatter(
    x: Array,
    op: ReduceOp,
    group: ProcessGroup | None,
    dim: int,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to reduce every rank's `x`, and to keep this rank's part."""
    group = entered_group(group, "reduce_scatter")
    x = _given(x, "reduce_scatter", group)
    check_reduction(op, x.dtype, lambda: group.where("reduce_scatter"))
    dim = check_dim(dim, x.ndim, "reduce_scatter", group)
    check_parts(x.shape, dim, "reduce_scatter", group)
    shape = divided(x.shape, group.size, dim)
    if isinstance(x, ShapeArray):
        return _dry("reduce_scatter", group, x, shape, wrap)
    rows = split(x, group.size, dim)
    filled, finish = output(out, shape, rows, "reduce_scatter", group, wrap)
    return _submit(
        "reduce_scatter", group, x, lambda on: on.reduce_scatter(rows, filled, op), finish, background
    )


def issue_all_to_all(
    x: Array,
    group: ProcessGroup | None,
    split_dim: int,
    concat_dim: int | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give each rank its part of `x`, and to concatenate what comes back."""
    group = entered_group(group, "all_to_all")
    x = _given(x, "all_to_all", group)
    split_dim = check_dim(split_dim, x.ndim, "all_to_all", group, "split_dim")
    concat_dim = (
        split_dim if concat_dim is None else check_dim(concat_dim, x.ndim, "all_to_all", group, "concat_dim")
    )
    check_parts(x.shape, split_dim, "all_to_all", group)
    part = divided(x.shape, group.size, split_dim)
    if isinstance(x, ShapeArray):
        return _dry("all_to_all", group, x, concatenated(part, group.size, concat_dim), wrap)
    sent = split(x, group.size, split_dim)
    if out is not None and np.may_share_memory(sent, out):
        sent = sent.copy()
    rows, finish = output_rows(out, sent[0, ...], concat_dim, "all_to_all", group, wrap)
    return _submit("all_to_all", group, x, lambda on: on.all_to_all(sent, rows), finish, background)


def issue_broadcast(
    x: Array | None, src: int, group: ProcessGroup | None, out: Array | None, wrap: Wrap[T], background: bool
) -> Work[T]:
    """Begin to give every rank the `x` of rank `src`."""
    group = entered_group(group, "broadcast")
    root = check_root(src, "src", "broadcast", group)
    x = _given(_template(x, out, "broadcast", group), "broadcast", group)
    if isinstance(x, ShapeArray):
        return _dry("broadcast", group, x, x.shape, wrap)
    filled, finish = output(out, x.shape, x, "broadcast", group, wrap)
    if group.rank == root and filled is not x:
        np.copyto(filled, x)
    return _submit("broadcast", group, x, lambda on: on.broadcast(filled, root), finish, background)


def issue_reduce(
    x: Array,
    dst: int,
    op: ReduceOp,
    group: ProcessGroup | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T | None]:
    """Begin to reduce every rank's `x` on rank `dst`."""
    group = entered_group(group, "reduce")
    root = check_root(dst, "dst", "reduce", group)
    x = _given(x, "reduce", group)
    check_reduction(op, x.dtype, lambda: group.where("reduce"))
    if isinstance(x, ShapeArray):
        return _dry("reduce", group, x, x.shape, wrap)
    if group.rank != root:
        return _submit("reduce", group, x, lambda on: on.reduce(x, None, op, root), _nothing, background)
    filled, finish = output(out, x.shape, x, "reduce", group, wrap)
    return _submit("reduce", group, x, lambda on: on.reduce(x, filled, op, root), finish, background)


def issue_gather(
    x: Array,
    dst: int,
    group: ProcessGroup | None,
    dim: int,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T | None]:
    """Begin to concatenate every rank's `x` on rank `dst`."""
    group = entered_group(group, "gather")
    root = check_root(dst, "dst", "gather", group)
    x = _given(x, "gather", group)
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "gather", group)
    if isinstance(x, ShapeArray):
        return _dry("gather", group, x, concatenated(x.shape, group.size, dim), wrap)
    if group.rank != root:
        return _submit("gather", group, x, lambda on: on.gather(x, None, root), _nothing, background)
    rows, finish = output_rows(out, x, dim, "gather", group, wrap)
    return _submit("gather", group, x, lambda on: on.gather(x, rows, root), finish, background)


def issue_scatter(
    x: Array | None,
    src: int,
    group: ProcessGroup | None,
    dim: int,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give every rank its part of the `x` of rank `src`."""
    group = entered_group(group, "scatter")
    root = check_root(src, "src", "scatter", group)
    if x is None and out is not None and group.rank != root:
        filled, finish = output(out, out.shape, np.empty(0, out.dtype), "scatter", group, wrap)
        return _submit(
            "scatter", group, filled, lambda on: on.scatter(None, filled, root), finish, background
        )
    x = _given(_template(x, None, "scatter", group), "scatter", group)
    dim = check_dim(dim, x.ndim, "scatter", group)
    check_parts(x.shape, dim, "scatter", group)
    shape = divided(x.shape, group.size, dim)
    if isinstance(x, ShapeArray):
        return _dry("scatter", group, x, shape, wrap)
    rows = split(x, group.size, dim) if group.rank == root else None
    filled, finish = output(
        out, shape, np.empty(0, x.dtype) if rows is None else rows, "scatter", group, wrap
    )
    return _submit("scatter", group, x, lambda on: on.scatter(rows, filled, root), finish, background)


def issue_barrier(group: ProcessGroup | None) -> Work[None]:
    """Begin to wait for all ranks."""
    group = entered_group(group, "barrier")
    return group.submit("barrier", _BYTE, (), 0, lambda on: on.barrier(), _nothing, False)


_BYTE = np.dtype(np.uint8)


def _given(x: Array, op: str, group: ProcessGroup) -> Array:
    return x if isinstance(x, ShapeArray) else readable(x, op, lambda: group.where(op))


def _nothing() -> None:
    return None


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


def _submit(
    op: str,
    group: ProcessGroup,
    x: Array,
    start: Callable[[Channel], Pending],
    finish: Callable[[], T],
    background: bool,
) -> Work[T]:
    return group.submit(op, x.dtype, x.shape, x.nbytes, start, finish, background)


def _dry(op: str, group: ProcessGroup, x: Array, shape: Shape, wrap: Wrap[T]) -> Work[T]:
    return group.note(
        op, x.dtype, x.shape, x.nbytes, lambda: wrap(get_backend("shape").empty(shape, x.dtype))
    )
