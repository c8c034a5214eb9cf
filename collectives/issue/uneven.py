"""The collectives whose parts differ in size, on arrays that were checked.

``extents`` are those of the parts along a dim, one for each rank of the group, and the same on all ranks.
The others hand over to these functions what their own cannot do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.composed import (
    all_gather_uneven,
    all_to_all_uneven,
    gather_uneven,
    reduce_scatter_uneven,
    scatter_uneven,
)
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.buffer import output_flat
from shardwise.collectives.issue.operation import Wrap, dry, nothing, submit
from shardwise.collectives.issue.placed import (
    gather_placed,
    is_large,
    largest_swapped,
    sum_placed,
    swap_placed,
)
from shardwise.collectives.layout import elements, pack, resized, stretches
from shardwise.collectives.pending import Pending
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = [
    "gather_by_sizes",
    "gather_to_one_by_sizes",
    "reduce_scatter_by_sizes",
    "scatter_by_sizes",
    "swap",
]

T = TypeVar("T")


def gather_by_sizes(
    x: Array,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to concatenate every rank's `x`."""
    op, rank = "all_gather", group.member("all_gather")
    shape = resized(x.shape, dim, sum(extents))
    if isinstance(x, ShapeArray):
        return dry(op, None, group, x, shape, wrap)
    counts = [size * elements(x.shape, dim) for size in extents]

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        flat, finish = output_flat(out, shape, extents, dim, x, stretches(counts)[rank], op, group, wrap)
        return lambda on: all_gather_uneven(on, x.reshape(-1), flat, counts), finish

    if is_large(x, math.prod(shape) * x.dtype.itemsize, group, dim > 0):
        return gather_placed(x, group, dim, extents, out is None, ordinary, wrap, background, (extents,))
    start, finish = ordinary()
    return submit(op, None, group, x, start, finish, background, (extents,))


def reduce_scatter_by_sizes(
    x: Array,
    op: Reduction,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to reduce every rank's `x`, and to keep this rank's part."""
    name, rank = "reduce_scatter", group.member("reduce_scatter")
    shape = resized(x.shape, dim, extents[rank])
    if isinstance(x, ShapeArray):
        return dry(name, op, group, x, shape, wrap)
    counts = [size * elements(x.shape, dim) for size in extents]

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        source = pack(x, extents, dim)
        own = source[slice(*stretches(counts)[rank])]
        flat, finish = output_flat(out, shape, (), 0, own, (0, own.size), name, group, wrap)
        return lambda on: reduce_scatter_uneven(on, source, flat, counts, op), finish

    largest = elements(x.shape, dim) * max(extents) * x.dtype.itemsize
    if op == "sum" and group.size == 2 and is_large(x, largest, group, dim > 0):
        return sum_placed(x, group, dim, extents, out is None, ordinary, wrap, background, (extents,))
    start, finish = ordinary()
    return submit(name, op, group, x, start, finish, background, (extents,))


def gather_to_one_by_sizes(
    x: Array,
    dst: int,
    root: int,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T | None]:
    """Begin to concatenate every rank's `x` on group rank `root`."""
    op, rank = "gather", group.member("gather")
    shape = resized(x.shape, dim, sum(extents))
    if isinstance(x, ShapeArray):
        return dry(op, dst, group, x, shape, wrap)
    counts = [size * elements(x.shape, dim) for size in extents]
    source = x.reshape(-1)
    if rank != root:
        return submit(
            op,
            dst,
            group,
            x,
            lambda on: gather_uneven(on, source, None, counts, root),
            nothing,
            background,
            (extents,),
        )
    flat, finish = output_flat(out, shape, extents, dim, x, stretches(counts)[rank], op, group, wrap)
    return submit(
        op,
        dst,
        group,
        x,
        lambda on: gather_uneven(on, source, flat, counts, root),
        finish,
        background,
        (extents,),
    )


def scatter_by_sizes(
    x: Array,
    src: int,
    root: int,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin to give every rank its part of group rank `root`'s `x`."""
    op, rank = "scatter", group.member("scatter")
    shape = resized(x.shape, dim, extents[rank])
    if isinstance(x, ShapeArray):
        return dry(op, src, group, x, shape, wrap)
    source = pack(x, extents, dim) if rank == root else None
    like = np.empty_like(x, shape=(0,)) if source is None else source
    counts = [size * elements(shape, dim) for size in extents]
    flat, finish = output_flat(out, shape, (), 0, like, None, op, group, wrap)
    return submit(
        op,
        src,
        group,
        x,
        lambda on: scatter_uneven(on, source, flat, counts, root),
        finish,
        background,
        (extents,),
    )


def swap(
    op: str,
    x: Array,
    group: ProcessGroup,
    split_dim: int,
    concat_dim: int,
    sent: Sequence[int],
    received: Sequence[int],
    part: Shape,
    out: Array | None,
    wrap: Wrap[T],
    background: bool,
) -> Work[T]:
    """Begin an exchange of parts.

    Parameters
    ----------
    sent : sequence of int
        Extents along `split_dim` of what goes to each rank.
    received : sequence of int
        Extents along `concat_dim` of what comes from each rank.
    part : tuple of int
        Shape of what comes, whatever its extent along `concat_dim`.
    """
    shape = resized(part, concat_dim, sum(received))
    if isinstance(x, ShapeArray):
        return dry(op, None, group, x, shape, wrap)
    going = [size * elements(x.shape, split_dim) for size in sent]
    coming = [size * elements(part, concat_dim) for size in received]

    def ordinary() -> tuple[Callable[[Channel], Pending], Callable[[], T]]:
        source = pack(x, sent, split_dim)
        flat, finish = output_flat(out, shape, received, concat_dim, source, None, op, group, wrap)
        return lambda on: all_to_all_uneven(on, source, flat, going, coming), finish

    # Along one dim, what one rank sends another one receives; along two, all say the same.
    splits = (sent, received) if op == "all_to_all_single" else ((*sent, *received),)
    largest = largest_swapped(x, split_dim, concat_dim, sent, received)
    if split_dim != concat_dim and is_large(x, largest, group, True):
        return swap_placed(
            x, group, split_dim, concat_dim, sent, received, out is None, ordinary, wrap, background, splits
        )
    start, finish = ordinary()
    return submit(op, None, group, x, start, finish, background, splits)
