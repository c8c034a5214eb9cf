"""The collectives on arrays in which all ranks do the same: checked, and issued in the lane of their group.

What the public functions add is in `form/symmetric.py`, where they are described. Here each returns its
`Work` at once. `wrap` makes the result of the array; `background` says that it must advance while nobody
waits for it. A `ShapeArray` moves nothing and gives the shape and the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.context import entered_group
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import is_plain, output, output_rows, plain_output
from shardwise.collectives.issue.check import check_all_sizes, check_dim, check_own_size, check_parts
from shardwise.collectives.issue.operation import Wrap, dry, given, nothing, submit
from shardwise.collectives.issue.placed import LARGE_WHOLE, gather_placed, is_large, sum_placed
from shardwise.collectives.issue.uneven import gather_by_sizes, reduce_scatter_by_sizes
from shardwise.collectives.layout import concatenated, divided, split
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import PLAIN, Reduction, check_reduction
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["issue_all_gather", "issue_all_reduce", "issue_barrier", "issue_reduce_scatter"]

T = TypeVar("T")

_BYTE = np.dtype(np.uint8)


def issue_all_reduce(
    x: Array, op: Reduction, group: ProcessGroup | None, out: Array | None, wrap: Wrap[T], background: bool
) -> Work[T]:
    """Begin to reduce every rank's `x`."""
    group = entered_group(group, "all_reduce")
    if (
        type(x) is np.ndarray
        and type(op) is str
        and (op, x.dtype) in PLAIN
        and x.flags.c_contiguous
        and (out is None or out is x)
    ):
        # What most calls give. The checks below would find nothing, and take as long as a small operation.
        total = np.empty(x.shape, x.dtype) if out is None else x
        if total is not x or x.flags.writeable:
            return group.submit(
                "all_reduce",
                op,
                x.dtype,
                x.shape,
                lambda on: on.all_reduce(x, total, op),
                lambda: wrap(total),
                background,
            )
    x = given(x, "all_reduce", group)
    check_reduction(op, x.dtype, lambda: group.where("all_reduce"))
    if isinstance(x, ShapeArray):
        return dry("all_reduce", op, group, x, x.shape, wrap)
    filled, finish = output(out, x.shape, x, "all_reduce", group, wrap)
    return submit("all_reduce", op, group, x, lambda on: on.all_reduce(x, filled, op), finish, background)


def issue_all_gather(
    x: Array,
    group: ProcessGroup | None,
    dim: int,
    sizes: Sequence[int] | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to concatenate every rank's `x`."""
    group = entered_group(group, "all_gather")
    if dim == 0 and sizes is None and is_plain(x) and x.ndim and x.nbytes * group.size < LARGE_WHOLE:
        n, shape = group.size, x.shape
        whole = plain_output(out, (n * shape[0], *shape[1:]), x)
        if whole is not None:
            parts = whole.reshape(n, *shape)
            return group.submit(
                "all_gather",
                None,
                x.dtype,
                shape,
                lambda on: on.all_gather(x, parts),
                lambda: wrap(whole),
                background,
            )
    x = given(x, "all_gather", group)
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "all_gather", group)
    if sizes is not None and (extents := check_own_size(x.shape, dim, sizes, "all_gather", group)):
        return gather_by_sizes(x, group, dim, extents, out, wrap, background)
    if isinstance(x, ShapeArray):
        return dry("all_gather", None, group, x, concatenated(x.shape, group.size, dim), wrap)

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        rows, finish = output_rows(out, x, dim, "all_gather", group, wrap)
        return lambda on: on.all_gather(x, rows), finish

    if is_large(x, x.nbytes * group.size, group, dim > 0):
        extents = (x.shape[dim],) * group.size
        return gather_placed(x, group, dim, extents, out is None, ordinary, wrap, background)
    start, finish = ordinary()
    return submit("all_gather", None, group, x, start, finish, background)


def issue_reduce_scatter(
    x: Array,
    op: Reduction,
    group: ProcessGroup | None,
    dim: int,
    sizes: Sequence[int] | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to reduce every rank's `x`, and to keep this rank's part."""
    group = entered_group(group, "reduce_scatter")
    if (
        dim == 0
        and sizes is None
        and type(x) is np.ndarray
        and type(op) is str
        and (op, x.dtype) in PLAIN
        and x.flags.c_contiguous
        and x.ndim
    ):
        n, shape = group.size, x.shape
        part = plain_output(out, (shape[0] // n, *shape[1:]), x) if shape[0] % n == 0 else None
        if part is not None:
            parts = x.reshape(n, *part.shape)
            return group.submit(
                "reduce_scatter",
                op,
                x.dtype,
                shape,
                lambda on: on.reduce_scatter(parts, part, op),
                lambda: wrap(part),
                background,
            )
    x = given(x, "reduce_scatter", group)
    check_reduction(op, x.dtype, lambda: group.where("reduce_scatter"))
    dim = check_dim(dim, x.ndim, "reduce_scatter", group)
    if sizes is None:
        check_parts(x.shape, dim, "reduce_scatter", group)
    elif extents := check_all_sizes(x.shape, dim, sizes, "reduce_scatter", group):
        return reduce_scatter_by_sizes(x, op, group, dim, extents, out, wrap, background)
    shape = divided(x.shape, group.size, dim)
    if isinstance(x, ShapeArray):
        return dry("reduce_scatter", op, group, x, shape, wrap)

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        rows = split(x, group.size, dim)
        filled, finish = output(out, shape, rows, "reduce_scatter", group, wrap)
        return lambda on: on.reduce_scatter(rows, filled, op), finish

    if dim > 0 and op == "sum" and group.size == 2 and is_large(x, x.nbytes // 2, group, True):
        extents = (shape[dim],) * 2
        return sum_placed(x, group, dim, extents, out is None, ordinary, wrap, background)
    start, finish = ordinary()
    return submit("reduce_scatter", op, group, x, start, finish, background)


def issue_barrier(group: ProcessGroup | None, background: bool = False) -> Work[None]:
    """Begin to wait for all ranks."""
    group = entered_group(group, "barrier")
    return group.submit("barrier", None, _BYTE, (), lambda on: on.barrier(), nothing, background)
