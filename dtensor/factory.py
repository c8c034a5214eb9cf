"""New DTensors of which every rank makes its own part: zeros, ranges, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError, LayoutError
from shardwise.collectives import local_device
from shardwise.dtensor.construct import mesh_of
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Layout, Placements
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.mesh import DeviceMesh
from shardwise.tensor.fresh import Size, filled, moved, read_shape, unset
from shardwise.tensor.random import next_draw
from shardwise.tensor.sampling import integers_of, normal_of, uniform_of
from shardwise.tensor.signature import Part

__all__ = ["arange", "empty", "full", "ones", "rand", "randint", "randn", "zeros"]


def zeros(
    *size: Size,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return a DTensor filled with 0, of which each rank makes its part.

    Parameters
    ----------
    *size : int or sequence of int
        The shape of the whole.
    dtype : dtype, optional
        float32, if not given.
    requires_grad : bool
    device_mesh : DeviceMesh, optional
        That of the innermost ``with mesh:``, if not given.
    placements : sequence of Placement, or Spec, optional
        Replicas, if not given. Partial is refused.
    mesh : DeviceMesh, optional
        Another name of `device_mesh`.

    Examples
    --------
    >>> x = zeros(4, 3, device_mesh=DeviceMesh("cpu", [0]), placements=["S(0)"])
    >>> x.shape, x.placements
    ((4, 3), (Shard(0),))
    """
    return full(read_shape(size), 0, **_given(dtype, requires_grad, device_mesh, placements, mesh))


def ones(
    *size: Size,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return a DTensor filled with 1; see `zeros`."""
    return full(read_shape(size), 1, **_given(dtype, requires_grad, device_mesh, placements, mesh))


def full(
    size: Size,
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return a DTensor filled with one number; see `zeros`."""
    where = _where("full", device_mesh, mesh)
    return _made(
        "full",
        read_shape((size,)),
        where,
        placements,
        requires_grad,
        lambda part, device: filled(part.shape, fill_value, dtype, device),
    )


def empty(
    *size: Size,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return a DTensor with whatever was in memory; see `zeros`."""
    where = _where("empty", device_mesh, mesh)
    return _made(
        "empty",
        read_shape(size),
        where,
        placements,
        requires_grad,
        lambda part, device: unset(part.shape, dtype, device),
    )


def arange(
    *bounds: float,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return evenly spaced numbers: ``arange(end)``, ``arange(start, end)``, ``arange(start, end, step)``.

    Parameters
    ----------
    *bounds : number
        The values are those of ``sw.arange``.
    dtype : dtype, optional
        int64 if all are integers, else float32.
    requires_grad, device_mesh, placements, mesh
        As for `zeros`.
    """
    if not 1 <= len(bounds) <= 3:
        raise ArgumentError(f"arange: wanted (end), (start, end) or (start, end, step), got {bounds}")
    start, end = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) == 3 else 1
    if step == 0 or (end - start) / step < 0:
        raise ArgumentError(f"arange: cannot go from {start} to {end} by steps of {step}")
    whole = all(isinstance(each, (int, np.integer)) for each in bounds)
    count = math.ceil((end - start) / step)
    kind = np.dtype(dtype) if dtype is not None else np.dtype(np.int64 if whole else np.float32)

    def make(part: Part, device: str) -> Array:
        places = np.arange(part.offset[0], part.offset[0] + part.shape[0])
        # NumPy takes the difference of the first two numbers for the step.
        values = places * step + start if whole else start + places * ((start + step) - start)
        return moved(values.astype(kind), device)

    return _made("arange", (count,), _where("arange", device_mesh, mesh), placements, requires_grad, make)


def rand(
    *size: Size,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return uniform random numbers in [0, 1): those of ``sw.rand`` after the same seed; see `zeros`."""
    where, draw = _where("rand", device_mesh, mesh), next_draw()
    return _made(
        "rand",
        read_shape(size),
        where,
        placements,
        requires_grad,
        lambda part, device: uniform_of(part, dtype or np.float32, device, draw),
    )


def randn(
    *size: Size,
    dtype: DTypeLike | None = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return normal random numbers: those of ``sw.randn`` after the same seed; see `zeros`."""
    where, draw = _where("randn", device_mesh, mesh), next_draw()
    return _made(
        "randn",
        read_shape(size),
        where,
        placements,
        requires_grad,
        lambda part, device: normal_of(part, dtype or np.float32, device, draw),
    )


def randint(
    low: int,
    high: int | Size | None = None,
    size: Size | None = None,
    *,
    dtype: DTypeLike = np.int64,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Placements | None = None,
    mesh: DeviceMesh | None = None,
) -> DTensor:
    """Return random integers: ``randint(high, size)`` or ``randint(low, high, size)``; see `zeros`."""
    if not isinstance(high, (int, np.integer)):
        low, high, size = 0, low, high if size is None else size
    if size is None:
        raise ArgumentError("randint: wanted (high, size) or (low, high, size), and got no size")
    where, draw = _where("randint", device_mesh, mesh), next_draw()
    lowest, end = low, high
    return _made(
        "randint",
        read_shape((size,)),
        where,
        placements,
        requires_grad,
        lambda part, device: integers_of(lowest, end, part, dtype, device, draw),
    )


def _given(
    dtype: DTypeLike | None,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Placements | None,
    mesh: DeviceMesh | None,
) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "requires_grad": requires_grad,
        "device_mesh": device_mesh,
        "placements": placements,
        "mesh": mesh,
    }


def _where(name: str, device_mesh: DeviceMesh | None, mesh: DeviceMesh | None) -> DeviceMesh:
    return mesh_of(name, mesh if device_mesh is None else device_mesh)


def _made(
    name: str,
    shape: Shape,
    mesh: DeviceMesh,
    placements: Placements | None,
    requires_grad: bool,
    make: Callable[[Part, str], Array],
) -> DTensor:
    """Return a DTensor whose part here `make` gives."""
    kinds = ("R",) * mesh.ndim if placements is None else placements
    layout = Layout(mesh, kinds, shape, np.float32)
    if layout.partial:
        raise LayoutError(
            f"{name}: a new tensor has no terms, got {layout} on {mesh!r}; name Shard or Replicate, "
            "or give terms to DTensor.from_local(..., [Partial()])"
        )
    here = mesh.get_coordinate()
    part = Part((0,), (0,), (0,)) if here is None else Part(*layout.box(here), shape)
    array = make(part, local_device() if mesh.device_type == "cuda" else "cpu")
    return DTensor(ShardedArray(array, layout.with_dtype(array.dtype)), requires_grad)
