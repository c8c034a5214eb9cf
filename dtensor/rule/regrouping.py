"""Reshapes of sharded tensors: which pieces of the new shape the pieces of the old one are.

In a group of dims of equal products (see `reshape.groups`), a piece of the first dim is a run of elements,
and a piece of the first new dim too if it ends between two places of it. Where cuts fall elsewhere, or are of
inner dims, the axes come to cut the first dim at places that suit both shapes, which moves each element once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from shardwise.backend.array import Shape
from shardwise.dtensor.layout import Layout, chunk_ranges
from shardwise.dtensor.placement import Placement, Replicate, Shard
from shardwise.dtensor.rule.case import Case, lengths
from shardwise.dtensor.rule.reshape import groups
from shardwise.dtensor.strategy import Strategy

__all__ = ["regrouped", "reshape_rule"]


class _Group(NamedTuple):
    """Dims of the old and of the new shape that hold the same elements in the same order."""

    old: list[int]
    new: list[int]


class _Cut(NamedTuple):
    """How a dim of the old shape and one of the new are cut by the same axes."""

    axes: tuple[int, ...]
    old: int
    old_sizes: tuple[int, ...]
    new: int
    new_sizes: tuple[int, ...]


def reshape_rule(case: Case) -> Strategy | None:
    """Run on pieces that are pieces of both shapes."""
    layout, shape = case.first, tuple(case.params["shape"])
    if layout.numel == 0 or not any(layout.order):
        return None
    case.results()
    source, target = regrouped(case.moving(layout), shape)
    return case.strategy([source], [target])


@lru_cache(maxsize=4096)  # asked for by every view
def regrouped(layout: Layout, shape: Shape) -> tuple[Layout, Layout]:
    """Return how a tensor must lie to be seen in another shape, and how it lies then.

    Parameters
    ----------
    layout : Layout
        Of a tensor that is not empty.
    shape : tuple of int
        Of the same size.
    """
    parted = [_Group(old, new) for old, new in groups(layout.shape, shape)]
    cuts: list[_Cut] = []
    homeless: list[int] = []
    for group in parted:
        axes = _axes_of(layout, group)
        if axes:
            cut = _cut(layout, shape, group, axes)
            if cut is None:
                homeless += axes
            else:
                cuts.append(cut)
    taken = {cut.old for cut in cuts}
    for axis in homeless:
        for group in parted:
            cut = None if taken & {*group.old} else _cut(layout, shape, group, (axis,))
            if cut is not None and layout.shape[cut.old] >= layout.mesh.shape[axis]:
                cuts.append(cut)
                taken.add(cut.old)
                break
    return _laid(layout, layout.shape, cuts, True), _laid(layout, shape, cuts, False)


def _axes_of(layout: Layout, group: _Group) -> tuple[int, ...]:
    return tuple([axis for dim in group.old for axis in layout.order[dim]])


def _first(shape: Shape, dims: Sequence[int]) -> int | None:
    """Return the first dim that is not one; the first of all, if all are."""
    return next((dim for dim in dims if shape[dim] != 1), dims[0] if dims else None)


def _cut(layout: Layout, shape: Shape, group: _Group, axes: tuple[int, ...]) -> _Cut | None:
    """Return how axes may cut a group; None if there are too few places for them."""
    old, new = _first(layout.shape, group.old), _first(shape, group.new)
    if old is None or new is None:
        return None
    inner_old = math.prod([layout.shape[dim] for dim in group.old if dim > old])
    inner_new = math.prod([shape[dim] for dim in group.new if dim > new])
    cut = [dim for dim in group.old if layout.order[dim]]
    if len(cut) == 1 and cut[0] <= old:  # a dim of one before it is cut into all and nothing
        held = lengths(layout, cut[0])
        runs = [n * inner_old * (1 if cut[0] == old else layout.shape[old]) for n in held]
        if all(run % inner_old == 0 and run % inner_new == 0 for run in runs):
            return _Cut(
                axes, old, tuple([n // inner_old for n in runs]), new, tuple([n // inner_new for n in runs])
            )
    unit = math.lcm(inner_old, inner_new)
    units = layout.shape[old] * inner_old // unit
    widths = [layout.mesh.shape[axis] for axis in axes]
    if units < math.prod(widths):
        return None
    counts = [stop - start for start, stop in chunk_ranges(units, widths)]
    return _Cut(
        axes,
        old,
        tuple([n * unit // inner_old for n in counts]),
        new,
        tuple([n * unit // inner_new for n in counts]),
    )


def _laid(layout: Layout, shape: Shape, cuts: Sequence[_Cut], before: bool) -> Layout:
    kinds: list[Placement] = [Replicate() if isinstance(p, Shard) else p for p in layout.placements]
    order: list[tuple[int, ...]] = [()] * len(shape)
    for cut in cuts:
        dim, sizes = (cut.old, cut.old_sizes) if before else (cut.new, cut.new_sizes)
        order[dim] = cut.axes
        for axis in cut.axes:
            kinds[axis] = Shard(dim, sizes)
    return Layout.of(layout.mesh, tuple(kinds), tuple(order), shape, layout.dtype)
