"""What masks choose: each rank takes it from its part, and all tell each other how much that is.

The results are ragged shards, in the order of the whole because parts are cut along the first dim.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DataDependentShapeError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import all_gather, get_world, implicit, rank
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard
from shardwise.dtensor.redistribute.box import line
from shardwise.dtensor.rule.case import Case, Perform, Play
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.dtensor.strategy import finished
from shardwise.tensor.function import Context
from shardwise.tensor.ops import index, search
from shardwise.tensor.signature import Part

__all__ = ["agreed_sizes", "by_first_dim", "masked", "nonzero_rule", "replica", "unknown_outside"]


def agreed_sizes(layout: Layout, dim: int, count: int) -> tuple[int, ...]:
    """Return the counts of all ranks that share the pieces of a dim, in the order of the pieces.

    A collective of a few bytes over the axes that cut the dim.
    """
    here = layout.mesh.get_coordinate()
    if here is None:
        raise unknown_outside()
    axes = layout.order[dim]
    if not axes:
        return (count,)
    ranks = tuple([int(layout.mesh.mesh[at]) for at in line(layout.mesh, here, axes)])
    with implicit():
        counts = all_gather(np.array([count], np.int64), get_world().group(ranks))
    return tuple([int(n) for n in counts])


def unknown_outside() -> DataDependentShapeError:
    """Return the error of ranks that would have to know values of a mesh that they are not in."""
    return DataDependentShapeError(
        f"the shape of the result depends on values, and rank {rank()} is not in the mesh and has none; call "
        "it on the ranks of the mesh only"
    )


def by_first_dim(layout: Layout, ndim: int, dtype: Any = None) -> Layout:
    """Return a layout in which, of the first `ndim` dims, only the first one is cut, by all axes of these."""
    axes = tuple([axis for dim in range(ndim) for axis in layout.order[dim]])
    if layout.order[0] == axes:
        return layout
    kinds = list(layout.placements)
    for axis in axes:
        kinds[axis] = Shard(0)
    order = (axes, *[()] * (ndim - 1), *layout.order[ndim:])
    return Layout.of(layout.mesh, tuple(kinds), order, layout.shape, layout.dtype)


class MaskPart(index.Index):
    """``a[mask]`` of a part, with that part of the mask; on wholes, with the whole mask."""

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any, count: int = 0) -> Array:
        if isinstance(a, ShapeArray):
            ctx.shape, ctx.index = a.shape, index
            return np.zeros_like(a, shape=(count, *a.shape[index.ndim :]))
        return _INDEX.forward(ctx, a, index.local)


_INDEX = index.Index


def masked(perform: Perform, x: Any, mask: Any) -> Any:
    """Return ``x[mask]`` as a ragged shard.

    Parameters
    ----------
    perform : callable
    x : DTensor
    mask : DTensor of bool
        Of the shape of the first dims of `x`, one at least.
    """
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(
            f"boolean index of shape {mask.shape} did not match the first dims of a tensor of shape {x.shape}"
        )
    layout = by_first_dim(x.layout, mask.ndim)
    if any(isinstance(p, Partial) and p.reduce_op != "sum" for p in layout.placements):
        layout = layout.reduced()
    kinds: list[Placement] = [Replicate()] * layout.mesh.ndim
    for axis in layout.order[0]:
        kinds[axis] = layout.placements[axis]
    order = (layout.order[0], *[()] * (mask.ndim - 1))
    mask = mask.detach().placed_as(Layout.of(layout.mesh, tuple(kinds), order, mask.shape, mask.layout.dtype))
    sizes = agreed_sizes(layout, 0, int(np.count_nonzero(mask.data.local)))
    kinds = list(layout.placements)
    for dim, axes in enumerate(layout.order):
        for axis in axes:
            placement = layout.placements[axis]
            given = placement.sizes if isinstance(placement, Shard) else None
            kinds[axis] = Shard(0, sizes) if dim == 0 else Shard(dim - mask.ndim + 1, given)
    shape = (sum(sizes), *layout.shape[mask.ndim :])
    target = Layout.of(
        layout.mesh, tuple(kinds), (layout.order[0], *layout.order[mask.ndim :]), shape, layout.dtype
    )
    strategy = finished(MaskPart, (layout,), (x.layout,), (target,), False)
    return perform(strategy, (x,), {"index": mask.data, "count": sum(sizes)})


class NonzeroPart(search.Nonzero):
    """Where a part is not zero, counted in the whole."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {"offset": inputs[0].offset}

    @staticmethod
    def forward(ctx: Context, a: Array, offset: tuple[int, ...] = ()) -> Array:
        found = search.Nonzero.forward(ctx, a)
        return found + np.array(offset, found.dtype, like=found) if offset and found.size else found


def nonzero_rule(case: Case) -> Play | None:
    """Look in the parts."""
    layout = case.first
    if not any(layout.order):
        return None
    wanted = by_first_dim(layout.reduced(), layout.ndim)

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0].detach().placed_as(wanted)
        sizes = agreed_sizes(wanted, 0, int(np.count_nonzero(x.data.local)))
        kinds = tuple([Shard(0, sizes) if isinstance(p, Shard) else p for p in wanted.placements])
        shape = (sum(sizes), layout.ndim)
        target = Layout.of(wanted.mesh, kinds, (wanted.order[0], ()), shape, np.dtype(np.int64))
        return perform(finished(NonzeroPart, (wanted,), (x.layout,), (target,), False), (x,), {})

    return play


def replica(mesh: Any, array: Any) -> Any:
    """Return an array that all ranks hold as a DTensor."""
    whole = Layout(mesh, ("R",) * mesh.ndim, array.shape, array.dtype)
    return ShardedArray.tensor_class(ShardedArray(array, whole))
