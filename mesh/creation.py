"""`init_device_mesh`: a mesh of the world's ranks, by its shape."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.collectives import get_world
from shardwise.mesh.argument import DeviceType, check_device, checked_names, chosen_device, filled_sizes
from shardwise.mesh.device_mesh import DeviceMesh
from shardwise.mesh.host import PlacementWarning, host_advice, host_order

__all__ = ["init_device_mesh"]


def init_device_mesh(
    device_type: DeviceType,
    mesh_shape: int | Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
) -> DeviceMesh:
    """Lay the world's ranks out in a grid, row by row.

    Parameters
    ----------
    device_type : "auto", "cpu" or "cuda"
        ``"auto"`` takes CUDA where it can be used. With CUDA, this rank's device becomes number
        local rank modulo the number of devices.
    mesh_shape : int or sequence of int
        Ranks per axis; one may be -1, which takes what is left of the world.
    mesh_dim_names : sequence of str, optional
        One per axis.

    Returns
    -------
    DeviceMesh
        Of the first ranks of the world, as many as the shape says; the others are outside. The world is
        created, if it was not yet. No group is made and nothing is sent.

    Raises
    ------
    LayoutError
        The shape does not fit the world, or the names do not fit the shape.
    DeviceError
        CUDA was asked for and cannot be used.

    Warns
    -----
    PlacementWarning
        On rank 0, if the axis that talks most, which is that named ``"tp"``, or the last of several without
        names, crosses hosts; says which shape would not.

    Notes
    -----
    Ranks lie in their own order where that keeps the innermost axes inside hosts as far as can be. Where
    ranks were dealt out over hosts one by one, those of a host are put together, alike on all ranks.
    ``DeviceMesh(device_type, ranks)`` takes any order.

    Examples
    --------
    >>> init_device_mesh("cpu", (-1,), mesh_dim_names=("dp",))
    DeviceMesh('cpu', dp=1)
    """
    check_device(device_type, auto=True)
    sizes = tuple(mesh_shape) if isinstance(mesh_shape, Sequence) else (mesh_shape,)
    world = get_world()
    filled = filled_sizes(sizes, world.size)
    names = checked_names(mesh_dim_names, sizes)
    if filled is None:
        known = math.prod(n for n in sizes if n != -1)
        raise LayoutError(
            f"a mesh of shape {sizes} needs a multiple of {known} ranks, but the world has {world.size}; "
            f"start {_either(world.size, known)} ranks, or change the shape"
        )
    total = math.prod(filled)
    if total > world.size:
        raise LayoutError(
            f"a mesh of shape {sizes} needs {total} ranks, but the world has {world.size}; "
            f"start with `shardwise run -n {total}`, or use -1 for one of the sizes"
        )
    device = chosen_device(device_type)
    ranks = np.array(host_order(world.hosts[:total], filled), np.int64).reshape(filled)
    advice = host_advice(world.hosts, ranks, names)
    if advice and world.rank == 0:
        warnings.warn(f"init_device_mesh of shape {filled}: {advice}", PlacementWarning, stacklevel=2)
    return DeviceMesh(device, ranks, names)


def _either(total: int, known: int) -> str:
    """Name the multiples of `known` around `total`."""
    low = total // known * known
    return f"{low} or {low + known}" if low else str(known)
