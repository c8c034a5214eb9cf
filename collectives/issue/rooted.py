"""The collectives on arrays in which one rank is special: checked, and issued as those in `alike.py` are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.context import entered_group
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import is_plain, output, output_rows, plain_output
from shardwise.collectives.issue.check import (
    check_all_sizes,
    check_dim,
    check_own_size,
    check_parts,
    check_root,
)
from shardwise.collectives.issue.operation import Wrap, dry, given, nothing, submit
from shardwise.collectives.issue.uneven import gather_to_one_by_sizes, scatter_by_sizes
from shardwise.collectives.layout import concatenated, divided, resized, split
from shardwise.collectives.reduction import Reduction, check_reduction
from shardwise.collectives.work import Work

__all__ = ["issue_broadcast", "issue_gather", "issue_reduce", "issue_scatter"]

T = TypeVar("T")


def issue_broadcast(
    x: Array | None, src: int, group: ProcessGroup | None, out: Array | None, wrap: Wrap[T], background: bool
) -> Work[T]:
    """Begin to give every rank the `x` of rank `src`."""
    group = entered_group(group, "broadcast")
    # In most groups a rank is at its own place, which is quicker seen than looked for.
    own_place = type(src) is int and 0 <= src < group.size and group.ranks[src] == src
    root = src if own_place else check_root(src, "src", "broadcast", group)
    if is_plain(x) and x is not None:
        whole = x if out is x and x.flags.writeable else plain_output(out, x.shape, x)
        if whole is not None:
            if whole is not x and group.rank == root:
                np.copyto(whole, x)
            return group.submit(
                "broadcast",
                src,
                x.dtype,
                x.shape,
                lambda on: on.broadcast(whole, root),
                lambda: wrap(whole),
                background,
            )
    x = given(_template(x, out, "broadcast", group), "broadcast", group)
    if isinstance(x, ShapeArray):
        return dry("broadcast", src, group, x, x.shape, wrap)
    filled, finish = output(out, x.shape, x, "broadcast", group, wrap)
    if group.rank == root and filled is not x:
        np.copyto(filled, x)
    return submit("broadcast", src, group, x, lambda on: on.broadcast(filled, root), finish, background)


def issue_reduce(
    x: Array,
    dst: int,
    op: Reduction,
    group: ProcessGroup | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T | None]:
    """Begin to reduce every rank's `x` on rank `dst`."""
    group = entered_group(group, "reduce")
    root = check_root(dst, "dst", "reduce", group)
    x = given(x, "reduce", group)
    check_reduction(op, x.dtype, lambda: group.where("reduce"))
    if isinstance(x, ShapeArray):
        return dry("reduce", dst, group, x, x.shape, wrap)
    if group.rank != root:
        return submit("reduce", dst, group, x, lambda on: on.reduce(x, None, op, root), nothing, background)
    filled, finish = output(out, x.shape, x, "reduce", group, wrap)
    return submit("reduce", dst, group, x, lambda on: on.reduce(x, filled, op, root), finish, background)


def issue_gather(
    x: Array,
    dst: int,
    group: ProcessGroup | None,
    dim: int,
    sizes: Sequence[int] | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T | None]:
    """Begin to concatenate every rank's `x` on rank `dst`."""
    group = entered_group(group, "gather")
    root = check_root(dst, "dst", "gather", group)
    x = given(x, "gather", group)
    x = x if x.ndim else x.reshape(1)
    dim = check_dim(dim, x.ndim, "gather", group)
    if sizes is not None and (extents := check_own_size(x.shape, dim, sizes, "gather", group)):
        return gather_to_one_by_sizes(x, dst, root, group, dim, extents, out, wrap, background)
    if isinstance(x, ShapeArray):
        return dry("gather", dst, group, x, concatenated(x.shape, group.size, dim), wrap)
    if group.rank != root:
        return submit("gather", dst, group, x, lambda on: on.gather(x, None, root), nothing, background)
    rows, finish = output_rows(out, x, dim, "gather", group, wrap)
    return submit("gather", dst, group, x, lambda on: on.gather(x, rows, root), finish, background)


def issue_scatter(
    x: Array | None,
    src: int,
    group: ProcessGroup | None,
    dim: int,
    sizes: Sequence[int] | None,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give every rank its part of the `x` of rank `src`."""
    group = entered_group(group, "scatter")
    root = check_root(src, "src", "scatter", group)
    if x is None and out is not None and group.rank != root:
        # What all ranks give, as `out` tells it; only its shape and dtype are looked at.
        dim = check_dim(dim, out.ndim, "scatter", group)
        extent = group.size * out.shape[dim] if sizes is None else sum(sizes)
        x = np.broadcast_to(np.empty_like(out, shape=()), resized(out.shape, dim, extent))
    else:
        x = given(_template(x, None, "scatter", group), "scatter", group)
    dim = check_dim(dim, x.ndim, "scatter", group)
    if sizes is None:
        check_parts(x.shape, dim, "scatter", group)
    elif extents := check_all_sizes(x.shape, dim, sizes, "scatter", group):
        return scatter_by_sizes(x, src, root, group, dim, extents, out, wrap, background)
    shape = divided(x.shape, group.size, dim)
    if isinstance(x, ShapeArray):
        return dry("scatter", src, group, x, shape, wrap)
    rows = split(x, group.size, dim) if group.rank == root else None
    filled, finish = output(
        out, shape, np.empty_like(x, shape=(0,)) if rows is None else rows, "scatter", group, wrap
    )
    return submit("scatter", src, group, x, lambda on: on.scatter(rows, filled, root), finish, background)


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
