"""One entry per part of a dim: what ranks hold of their parts, laid side by side in a dim of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Shape
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Placement, Replicate, Shard
from shardwise.dtensor.rule.skip import is_outside, nothing
from shardwise.dtensor.sharded_array import ShardedArray

__all__ = ["axes_of", "blocks", "counts_of_blocks", "here_of", "place_of_block", "positions", "unblocked"]


def axes_of(layout: Layout, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the mesh axes that cut some of `dims`, dim by dim, the outermost of each first."""
    return tuple([axis for d in sorted(dims) for axis in layout.order[d]])


def blocks(layout: Layout, dims: Sequence[int], extra: Shape, dtype: Any) -> Layout:
    """Return the layout of one entry per part of `dims`.

    Parameters
    ----------
    layout : Layout
        Without partial axes.
    dims : sequence of int
        Which have size one in the entries.
    extra : tuple of int
        Sizes of dims that the entries have in front.
    dtype : dtype

    Returns
    -------
    Layout
        Of shape (parts, *extra, *sizes): the parts in the order of `axes_of`, each rank holding its own.
    """
    axes = axes_of(layout, dims)
    shift = 1 + len(extra)
    sizes = tuple([1 if d in dims else n for d, n in enumerate(layout.shape)])
    placements: list[Placement] = [Replicate()] * layout.mesh.ndim
    for axis, placement in enumerate(layout.placements):
        if axis in axes:
            placements[axis] = Shard(0)
        elif isinstance(placement, Shard):
            placements[axis] = Shard(placement.dim + shift, placement.sizes)
    order = (axes, *[()] * len(extra), *[() if d in dims else own for d, own in enumerate(layout.order)])
    count = math.prod([layout.mesh.shape[axis] for axis in axes])
    return Layout.of(layout.mesh, tuple(placements), order, (count, *extra, *sizes), np.dtype(dtype))


def unblocked(layout: Layout, outer: int = 0) -> Layout:
    """Return the layout of `blocks` in which all ranks hold the entries of all parts.

    Parameters
    ----------
    layout : Layout
    outer : int
        How many dims in front are gone: 1 for what is no longer per part.
    """
    placements: list[Placement] = []
    for placement in layout.placements:
        if isinstance(placement, Shard) and placement.dim == 0:
            placement = Replicate()
        elif isinstance(placement, Shard):
            placement = Shard(placement.dim - outer, placement.sizes)
        placements.append(placement)
    order = ((), *layout.order[1:])[outer:]
    return Layout.of(layout.mesh, tuple(placements), order, layout.shape[outer:], layout.dtype)


def here_of(layout: Layout) -> tuple[int, ...]:
    """Return this rank's coordinate on the mesh."""
    return layout.mesh.get_coordinate() or ()


def counts_of_blocks(layout: Layout, dims: Sequence[int]) -> list[int]:
    """Return how many elements along `dims` each part has, in the order of `axes_of`."""
    axes = axes_of(layout, dims)
    here = list(here_of(layout))
    counts = []
    for place in itertools.product(*[range(layout.mesh.shape[axis]) for axis in axes]):
        for axis, at in zip(axes, place, strict=True):
            here[axis] = at
        shape = layout.box(tuple(here)).shape
        counts.append(math.prod([shape[d] for d in dims]))
    return counts


def place_of_block(layout: Layout, dims: Sequence[int]) -> int:
    """Return which of the parts is this rank's."""
    here, at = here_of(layout), 0
    for axis in axes_of(layout, dims):
        at = at * layout.mesh.shape[axis] + here[axis]
    return at


def positions(layout: Layout, dim: int) -> Any:
    """Return 0, 1, ... along a dim, of size one along the others, as a DTensor that is cut there alike."""
    shape = tuple([n if d == dim else 1 for d, n in enumerate(layout.shape)])
    placements: list[Placement] = [
        p if isinstance(p, Shard) and p.dim == dim else Replicate() for p in layout.placements
    ]
    order = tuple([axes if d == dim else () for d, axes in enumerate(layout.order)])
    along = Layout.of(layout.mesh, tuple(placements), order, shape, np.dtype(np.int64))
    if is_outside(layout):
        return nothing(along)
    start, length = layout.box(here_of(layout)).offset[dim], layout.box(here_of(layout)).shape[dim]
    local = np.reshape(np.arange(start, start + length), along.local_shape(here_of(layout)))
    wrap: Any = ShardedArray.tensor_class
    return wrap(ShardedArray(local, along))
