"""Flattening and unflattening: the grid of ranks that comes out, and the names of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardwise.backend.errors import LayoutError
from shardwise.mesh.argument import Names, checked_names, filled_sizes
from shardwise.mesh.grid import RankGrid, divide_axis, merge_axes

__all__ = ["flattened", "unflattened"]


def flattened(
    ranks: RankGrid, names: Names, axes: Sequence[int], name: str | None, what: str
) -> tuple[RankGrid, Names]:
    """Merge axes into one, which stands where the outermost of them stood.

    Parameters
    ----------
    ranks : array of int64
    names : tuple of str or None
        Of its axes.
    axes : sequence of int
        All different, the last one runs fastest.
    name : str or None
        Of the merged axis; by default the old names joined by ``_``.
    what : str
        Begins messages.

    Raises
    ------
    LayoutError
        If the name is that of another axis, or would be the only one.
    """
    merged = merge_axes(ranks, axes)
    kept = [axis for axis in range(ranks.ndim) if axis not in axes]
    if names is None:
        if name is not None and kept:
            raise LayoutError(
                f"{what}: its other axes have no names, so {name!r} would be the only one; give the mesh "
                f"mesh_dim_names, or leave the name out"
            )
        return merged, None if name is None else checked_names((name,), merged.shape)
    old = [names[axis] for axis in axes]
    new = "_".join(old) if name is None else name
    if new in names and old != [new]:
        raise LayoutError(f"{what}: it has an axis {new!r} already; choose another mesh_dim_name")
    outer = [names[axis] for axis in kept if axis < min(axes)]
    inner = [names[axis] for axis in kept if axis > min(axes)]
    return merged, checked_names((*outer, new, *inner), merged.shape)


def unflattened(
    ranks: RankGrid, names: Names, axis: int, sizes: Sequence[int], new: Sequence[str] | None, what: str
) -> tuple[RankGrid, Names]:
    """Divide one axis into several, the last of them running fastest.

    Parameters
    ----------
    ranks : array of int64
    names : tuple of str or None
        Of its axes.
    axis : int
    sizes : sequence of int
        They multiply to that of the axis; one may be -1.
    new : sequence of str or None
        Names for them, where the axes have names.
    what : str
        Begins messages.

    Raises
    ------
    LayoutError
        If the sizes or the names do not fit.
    """
    sizes, size = tuple(sizes) if isinstance(sizes, Sequence) else (sizes,), ranks.shape[axis]
    filled = filled_sizes(sizes, size)
    if filled is None or math.prod(filled) != size:
        raise LayoutError(f"{what}: it has {size} ranks, and the sizes {sizes} do not multiply to that")
    divided = divide_axis(ranks, axis, filled)
    if names is None and new is not None:
        raise LayoutError(f"{what}: the mesh has no names; leave mesh_dim_names out")
    if names is None:
        return divided, None
    if new is None:
        raise LayoutError(f"{what}: the mesh has names; give mesh_dim_names, {len(sizes)} of them")
    added = checked_names(new, filled) or ()
    return divided, checked_names((*names[:axis], *added, *names[axis + 1 :]), divided.shape)
