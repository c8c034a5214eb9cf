"""Distribute a tensor that a rank has whole: who sends what to whom, axis by axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError, LayoutError
from shardwise.collectives import broadcast, scatter
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Coordinate, Layout, Placements
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.redistribute.plan import plan
from shardwise.dtensor.redistribute.run import run
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh, get_current_mesh
from shardwise.nn import Buffer, Parameter
from shardwise.tensor.creation import as_tensor

__all__ = ["distribute_tensor", "mesh_of"]


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Return a DTensor with the values that one rank has.

    Parameters
    ----------
    tensor : Tensor, Parameter, array or nested sequence
        Whole, of the same shape and dtype on all ranks; the values count on the source only. A leaf, if it is
        a tensor.
    device_mesh : DeviceMesh, optional
        That of the innermost ``with mesh:``, if not given.
    placements : sequence of Placement, or Spec, optional
        One per axis; replicas, if not given. Under Partial the first rank along the axis keeps the value, and
        the others get what changes nothing.
    src_data_rank : int, optional
        The source is the rank with this coordinate along every axis. None: all ranks hold the same values
        already, and take their parts without a word.

    Returns
    -------
    DTensor, or Parameter over one if `tensor` is a Parameter
        A leaf that requires grad if `tensor` does. Without a source, replicas share the memory of `tensor`.

    Raises
    ------
    LayoutError
        There is no mesh; the placements do not fit; or `tensor` is a DTensor that lies otherwise.
    AutogradError
        `tensor` is no leaf.

    Notes
    -----
    Along axes that shard, each rank on the way sends the others their pieces (scatter); then along those that
    replicate, its piece to all (broadcast): nobody gets more than its part. All ranks of the mesh call this.

    Examples
    --------
    >>> from shardwise.collectives import run_threads
    >>> def show(rank):
    ...     mesh = DeviceMesh("cpu", [0, 1])
    ...     x = distribute_tensor(np.arange(5) if rank == 0 else np.zeros(5, int), mesh, ["S(0)"])
    ...     return x.to_local().tolist()
    >>> run_threads(show, 2)
    [[0, 1, 2], [3, 4]]
    """
    mesh = mesh_of("distribute_tensor", device_mesh)
    if placements is None:
        placements = ("R",) * mesh.ndim
    if isinstance(tensor, DTensor):
        return _same(tensor, mesh, placements)
    whole = as_tensor(tensor)
    layout = Layout(mesh, placements, whole.shape, whole.dtype)
    if whole.node is not None:
        raise AutogradError(
            "distribute_tensor: the tensor is the result of an op, and the DTensor would be a leaf; "
            "detach() it first, or keep the gradient by DTensor.from_local of a tensor that all ranks have"
        )
    _check_source(src_data_rank, mesh)
    here = mesh.get_coordinate()
    if here is None:
        local = np.empty_like(whole.data, shape=(0,))
    elif src_data_rank is None:
        local = _cut(whole.data, layout)
    else:
        local = _cut_terms(_sent(whole.data, layout.reduced(), here, src_data_rank), layout)
    return _wrapped(tensor, ShardedArray(local, layout))


def mesh_of(name: str, mesh: DeviceMesh | None) -> DeviceMesh:
    """Return the mesh that was given, else that of the context."""
    found = get_current_mesh() if mesh is None else mesh
    if not isinstance(found, DeviceMesh):
        given = (
            "none is given, nor open by `with mesh:`" if found is None else f"got a {type(found).__name__}"
        )
        raise LayoutError(f"{name}: wanted a DeviceMesh, and {given}")
    return found


def _same(tensor: DTensor, mesh: DeviceMesh, placements: Placements) -> DTensor:
    """Return a DTensor as it is; it must lie so already."""
    if Layout(mesh, placements, tensor.shape, tensor.dtype) is not tensor.layout:
        raise LayoutError(
            f"distribute_tensor: the tensor is distributed already, {tensor.layout!r}; call "
            "redistribute(mesh, placements) on it"
        )
    return tensor


def _check_source(source: int | None, mesh: DeviceMesh) -> None:
    least = min(mesh.shape)
    if source is not None and not 0 <= source < least:
        raise LayoutError(
            f"distribute_tensor: src_data_rank is a coordinate along every axis of {mesh!r}: 0 to "
            f"{least - 1}, or None; got {source}"
        )


def _wrapped(like: Any, array: ShardedArray) -> Any:
    """Return a leaf of the kind of `like`."""
    requires_grad = bool(getattr(like, "requires_grad", False))
    if isinstance(like, Parameter):
        return Parameter(DTensor(array), requires_grad)
    if isinstance(like, Buffer):
        return Buffer(DTensor(array), like.persistent)
    return DTensor(array, requires_grad)


def _cut(whole: Array, layout: Layout) -> Array:
    """Take this rank's part of an array that all ranks have, with memory of its own unless it is all."""
    local = run(plan(layout.replicated(), layout), whole)
    if local is not whole and isinstance(local, np.ndarray) and np.may_share_memory(local, whole):
        return local.copy()
    return local


def _cut_terms(local: Array, layout: Layout) -> Array:
    """Make terms of a part, along the axes that are partial."""
    return run(plan(layout.reduced(), layout), local) if layout.partial else local


def _sent(whole: Array, layout: Layout, here: Coordinate, source: int) -> Array:
    """Get this rank's part from the rank at `source` along every axis.

    The rank that has a piece hands on what the ranks along the next axis need of it. An axis comes after
    those that cut the same dim further outside, so that what it cuts is one range of the dim.
    """
    mesh = layout.mesh
    at_source = all(place == source for place in here)
    held: Array | None = whole if at_source else None
    done: list[int] = []
    for axis in _axes(layout):
        width = mesh.shape[axis]
        on_way = all(place == source for a, place in enumerate(here) if a not in done and a != axis)
        done.append(axis)
        if not on_way or width == 1:
            continue
        group = mesh.get_group(axis)
        root = group.ranks[source]
        placement = layout.placements[axis]
        out = np.empty_like(whole, shape=_held_shape(layout, here, done))
        if isinstance(placement, Shard):
            line = [(*here[:axis], i, *here[axis + 1 :]) for i in range(width)]
            sizes = [_held_shape(layout, place, done)[placement.dim] for place in line]
            held = scatter(held, root, group, placement.dim, sizes=sizes, out=out)
        elif here[axis] == source:
            assert held is not None
            broadcast(held, root, group)
        else:
            held = broadcast(None, root, group, out=out)
    assert held is not None
    return held.copy() if held is whole else held


def _axes(layout: Layout) -> list[int]:
    """Order the axes: those that shard come first, the outer ones of a dim before the inner."""
    left = [axis for axis, placement in enumerate(layout.placements) if isinstance(placement, Shard)]
    found: list[int] = []
    while left:
        for axis in left:
            placement = layout.placements[axis]
            assert isinstance(placement, Shard)
            order = layout.order[placement.dim]
            if all(outer in found for outer in order[: order.index(axis)]):
                found.append(axis)
                left.remove(axis)
                break
    return found + [axis for axis in range(layout.mesh.ndim) if axis not in found]


def _held_shape(layout: Layout, at: Coordinate, done: list[int]) -> tuple[int, ...]:
    """Return the shape of what the rank at a coordinate has once the axes in `done` have cut it."""
    shape = []
    for dim, axes in enumerate(layout.order):
        pieces = layout.ranges[dim]
        first, count = 0, len(pieces)
        for axis in axes:
            if axis not in done:
                break
            count //= layout.mesh.shape[axis]
            first += at[axis] * count
        shape.append(pieces[first + count - 1][1] - pieces[first][0])
    return tuple(shape)
