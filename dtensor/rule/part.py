"""Layouts beside those of a tensor: of what is left of it, of several in one, of terms of a sum."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard

__all__ = ["terms_along", "with_outer_dim", "without_dim"]


def without_dim(layout: Layout, dim: int) -> Layout:
    """Return the layout of what is left of a tensor when a dim is reduced, the same on all ranks along it."""
    placements: list[Placement] = []
    for placement in layout.placements:
        if isinstance(placement, Shard):
            if placement.dim == dim:
                placement = Replicate()
            elif placement.dim > dim:
                placement = Shard(placement.dim - 1, placement.sizes)
        placements.append(placement)
    shape, order = layout.shape, layout.order
    return Layout.of(
        layout.mesh,
        tuple(placements),
        order[:dim] + order[dim + 1 :],
        shape[:dim] + shape[dim + 1 :],
        layout.dtype,
    )


def with_outer_dim(layout: Layout, size: int) -> Layout:
    """Return the layout of several tensors that lie alike, stacked in a dim in front."""
    placements = tuple([Shard(p.dim + 1, p.sizes) if isinstance(p, Shard) else p for p in layout.placements])
    order, shape = ((), *layout.order), (size, *layout.shape)
    return Layout.of(layout.mesh, placements, order, shape, layout.dtype)


def terms_along(layout: Layout, axes: Sequence[int]) -> Layout:
    """Return the layout of terms of a sum along some axes."""
    placements = tuple([Partial("sum") if a in axes else p for a, p in enumerate(layout.placements)])
    return Layout.of(layout.mesh, placements, layout.order, layout.shape, layout.dtype)
