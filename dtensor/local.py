"""Make a DTensor of the parts that the ranks hold already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.errors import LayoutError
from shardwise.collectives import all_gather, all_gather_object, rank
from shardwise.dtensor.boundary import FromLocal, cross
from shardwise.dtensor.construct import mesh_of
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Coordinate, Layout, Placements, read_placements
from shardwise.dtensor.placement import Placement, Shard
from shardwise.dtensor.replica import check_replicas, checks_replicas
from shardwise.mesh import DeviceMesh
from shardwise.tensor.creation import as_tensor

__all__ = ["from_local"]


def from_local(
    local: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    *,
    mesh: DeviceMesh | None = None,
    run_check: bool | None = None,
    shape: Sequence[int] | None = None,
    grad_placements: Placements | None = None,
) -> DTensor:
    """Return a DTensor whose parts are what the ranks give; also ``DTensor.from_local``.

    Parameters
    ----------
    local : Tensor or array
        This rank's part, replica or term. Its memory is shared, and gradients flow back to it.
    device_mesh : DeviceMesh, optional
        That of the innermost ``with mesh:``, if not given.
    placements : sequence of Placement, or Spec, optional
        What the parts are; replicas, if not given.
    mesh : DeviceMesh, optional
        Another name of `device_mesh`.
    run_check : bool, optional
        Compare dtypes, shapes, and the values of replicas over all ranks. By default only in debug mode.
    shape : sequence of int, optional
        Of the whole. If it is given nothing is sent, and the parts must be as `placements` say of it.
    grad_placements : sequence of Placement, optional
        How the gradient must lie before it goes back to the parts: as `placements` say, with Replicate in
        place of Partial, if not given.

    Raises
    ------
    LayoutError
        The parts do not make a whole: on all ranks, unless `shape` was given.

    Notes
    -----
    Without `shape` the ranks along the axes that shard tell each other their sizes, a few bytes. Uneven
    parts are right: where they do not follow the rule of `Shard`, the placements say their sizes.

    Examples
    --------
    >>> from shardwise.collectives import run_threads
    >>> def show(rank):
    ...     x = from_local(np.ones(rank + 1), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
    ...     return x.shape, x.placements, x.sum().item()
    >>> run_threads(show, 3)[0]
    ((6,), (Shard(0, sizes=(1, 2, 3)),), 6.0)
    """
    where = mesh_of("from_local", mesh if device_mesh is None else device_mesh)
    if isinstance(local, DTensor):
        raise LayoutError(
            f"from_local: this is a DTensor already, {local.layout!r}; redistribute() it, or give to_local()"
        )
    tensor = as_tensor(local)
    given = ("R",) * where.ndim if placements is None else placements
    here = where.get_coordinate()
    layout = _layout(where, given, tensor.shape, tensor.dtype, shape, here)
    if here is None:
        tensor = as_tensor(np.empty_like(tensor.data, shape=(0,))).requires_grad_(tensor.requires_grad)
    elif tensor.shape != layout.local_shape(here):
        raise LayoutError(
            f"from_local: rank {rank()} at {here} of {where!r} gives a part of shape {tensor.shape}; as "
            f"{layout} of shape {layout.shape} it should be {layout.local_shape(here)}. Leave shape= away to "
            "have the ranks tell theirs"
        )
    checked = checks_replicas() if run_check is None else run_check
    if checked and here is not None:
        _compare(layout, tensor.shape, str(tensor.dtype))
    cotangent = None if grad_placements is None else layout.with_placements(grad_placements)
    out: DTensor = cross(FromLocal, tensor, layout=layout, cotangent=cotangent)
    if checked:
        check_replicas(out)
    return out


def _layout(
    mesh: DeviceMesh,
    placements: Placements,
    part: Shape,
    dtype: Any,
    shape: Sequence[int] | None,
    here: Coordinate | None,
) -> Layout:
    """Find out the shape of the whole and, of uneven parts, the sizes."""
    kinds, order = read_placements(mesh, placements, len(part) if shape is None else len(shape))
    if shape is not None:
        return Layout.of(mesh, kinds, order, tuple(map(int, shape)), np.dtype(dtype))
    cut = [axis for axis, kind in enumerate(kinds) if isinstance(kind, Shard) and mesh.shape[axis] > 1]
    if here is None:  # nobody tells a rank outside of the mesh, and nothing depends on what it believes
        widths = [int(np.prod([mesh.shape[axis] for axis in axes])) for axes in order]
        whole = tuple([n * width for n, width in zip(part, widths, strict=True)])
        plain = tuple([Shard(kind.dim) if isinstance(kind, Shard) else kind for kind in kinds])
        return Layout.of(mesh, plain, order, whole, np.dtype(dtype))
    table = np.array(part, np.int64)
    for axis in reversed(cut):
        table = all_gather(np.ascontiguousarray(table[None]), mesh.get_group(axis))
    return _told(mesh, kinds, order, cut, table, dtype)


def _told(
    mesh: DeviceMesh,
    kinds: tuple[Placement, ...],
    order: tuple[tuple[int, ...], ...],
    cut: list[int],
    table: Any,
    dtype: Any,
) -> Layout:
    """Make a layout of the shapes of the parts, an array (*axes in `cut`, dims)."""
    whole, found = [], list(kinds)
    for dim, axes in enumerate(order):
        inner = [axis for axis in axes if axis in cut]
        places = [cut.index(axis) for axis in inner]
        others = [place for place in range(len(cut)) if place not in places]
        sizes = (
            table[..., dim]
            .transpose(*others, *places)
            .reshape(-1, int(np.prod([mesh.shape[a] for a in inner])))
        )
        if (sizes != sizes[0]).any():
            raise LayoutError(
                f"from_local: the parts do not make a whole on {mesh!r}: along dim {dim} they have the sizes "
                f"{np.unique(table[..., dim]).tolist()}, where {[str(kind) for kind in kinds]} wants equal "
                "ones"
            )
        line = tuple(map(int, sizes[0]))
        whole.append(sum(line))
        for axis in axes:
            found[axis] = Shard(dim, line)
    return Layout.of(mesh, tuple(found), order, tuple(whole), np.dtype(dtype))


def _compare(layout: Layout, shape: Shape, dtype: str) -> None:
    """Raise on all ranks unless the parts of all are as the layout says."""
    told: Any = (rank(), layout.mesh.get_coordinate(), layout.shape, shape, dtype)
    rows = [told]
    for group in reversed(layout.mesh.get_all_groups()):
        rows = [row for more in all_gather_object(rows, group) for row in more]
    first = rows[0]
    for number, place, whole, part, kind in rows:
        if whole != first[2] or kind != first[4] or part != layout.local_shape(place):
            raise LayoutError(
                f"from_local: rank {number} at {place} of {layout.mesh!r} gives {kind}{list(part)} of a "
                f"whole of shape {whole}, and rank {first[0]} {first[4]}{list(first[3])} of {first[2]}, as "
                f"{layout}; give parts of one whole"
            )


DTensor.from_local = staticmethod(from_local)
