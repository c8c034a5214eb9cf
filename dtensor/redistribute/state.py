"""What a search for plans walks through: layouts without all that makes them heavy.

A `Layout` knows who holds what; a state only how each tensor dim is cut and what is still to be reduced. Axes
of one rank do not matter and are left out, so that changes along them are no changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard
from shardwise.mesh import DeviceMesh

__all__ = ["Cut", "State", "Terms", "extent", "layout_of", "local_shape", "state_of", "volume"]

Terms: TypeAlias = tuple[tuple[int, str], ...]
"""(axis, reduction) for each axis along which values are spread over terms, in the order of the axes."""


class Cut(NamedTuple):
    """How one tensor dim is cut: over which axes, the outermost first; into which sizes, if given."""

    axes: tuple[int, ...] = ()
    sizes: tuple[int, ...] | None = None


class State(NamedTuple):
    """A layout on a given mesh of a given shape: a cut for each tensor dim, and the terms."""

    cuts: tuple[Cut, ...]
    terms: Terms


def state_of(layout: Layout) -> State:
    """Give the state of a layout."""
    widths = layout.mesh.shape
    cuts = []
    for axes in layout.order:
        kept = tuple([axis for axis in axes if widths[axis] > 1])
        first = layout.placements[axes[0]] if kept else None
        cuts.append(Cut(kept, first.sizes if isinstance(first, Shard) else None))
    terms = [(i, p.reduce_op) for i, p in enumerate(layout.placements) if isinstance(p, Partial)]
    return State(tuple(cuts), tuple([(axis, op) for axis, op in terms if widths[axis] > 1]))


def layout_of(state: State, like: Layout) -> Layout:
    """Give the layout of a state, on the mesh and of the shape and dtype of `like`."""
    placements: list[Placement] = [Replicate()] * like.mesh.ndim
    for dim, cut in enumerate(state.cuts):
        for axis in cut.axes:
            placements[axis] = Shard(dim, cut.sizes)
    for axis, op in state.terms:
        placements[axis] = Partial(op)  # type: ignore[arg-type]
    order = tuple([cut.axes for cut in state.cuts])
    return Layout.of(like.mesh, tuple(placements), order, like.shape, like.dtype)


def extent(length: int, cut: Cut, widths: tuple[int, ...]) -> int:
    """Give the length of the longest piece of a dim."""
    if cut.sizes is not None:
        return max(cut.sizes)
    for axis in cut.axes:
        length = -(-length // widths[axis])
    return length


def local_shape(state: State, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[int, ...]:
    """Give the shape of the largest local array."""
    widths = mesh.shape
    return tuple([extent(n, cut, widths) for n, cut in zip(shape, state.cuts, strict=True)])


def volume(state: State, shape: tuple[int, ...], mesh: DeviceMesh) -> int:
    """Give the number of elements of the largest local array."""
    return math.prod(local_shape(state, shape, mesh))
