"""Programs on parts: plain tensors between `local_of` and `whole_of`, and what passes between ranks there.

Both lie on the tape, as does what is laid side by side between them, so that the gradients of a program, of
any order, come from its own ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwise.dtensor.boundary import FromLocal, ToLocal, cross
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard
from shardwise.dtensor.rule.block import axes_of, blocks, unblocked
from shardwise.tensor.tensor import Tensor

__all__ = ["added_up", "gathered", "local_of", "whole_of", "with_outer_dim", "without_dim"]


def local_of(x: Any) -> Any:
    """Return this rank's part of a DTensor that is not partial; its gradients lie as the parts do."""
    return cross(ToLocal, x, layout=x.layout)


def whole_of(local: Tensor, layout: Layout) -> Any:
    """Return the DTensor whose parts the ranks hold."""
    return cross(FromLocal, local, layout=layout.with_dtype(local.dtype))


def gathered(part: Tensor, layout: Layout, dims: Sequence[int]) -> Any:
    """Return what all ranks computed of their parts of `dims`, one behind the other in a new first dim.

    Parameters
    ----------
    part : Tensor
        With size one along `dims`.
    layout : Layout
        That the parts have.
    dims : sequence of int

    Returns
    -------
    Tensor, shape (parts, *part.shape)
        Ranks may use it differently: the gradients of all are added up.
    """
    entry = blocks(layout, dims, (), part.dtype)
    side_by_side = whole_of(part.reshape(1, *part.shape), entry).placed_as(unblocked(entry))
    return cross(ToLocal, side_by_side, layout=_with(unblocked(entry), axes_of(layout, dims)))


def added_up(part: Tensor, layout: Layout, axes: Sequence[int]) -> Any:
    """Return the sum of the ranks' tensors along some axes, the same on all; all use it alike.

    Parameters
    ----------
    part : Tensor
        A part of what `layout` describes.
    layout : Layout
        In which nothing is cut along `axes`.
    axes : sequence of int
    """
    layout = layout.with_dtype(part.dtype)
    total = cross(FromLocal, part, layout=_with(layout, axes)).placed_as(layout)
    return cross(ToLocal, total, layout=layout)


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


def _with(layout: Layout, axes: Sequence[int]) -> Layout:
    """Return the layout of terms of a sum along some axes."""
    placements = tuple([Partial("sum") if a in axes else p for a, p in enumerate(layout.placements)])
    return Layout.of(layout.mesh, placements, layout.order, layout.shape, layout.dtype)
