"""CUDA gathering and scattering, and weighted sums of slices.

The formulas are in ``gather.py``, ``scatter.py``, ``embedding.py`` and ``resampling.py``. Indices wrap around
as CuPy's do: to look at them would make the host wait for the device. Where they repeat, sums are added up in
the order in which threads come; their last bits may differ from run to run.
"""

from __future__ import annotations

import math

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import IndexRangeError, ShapeError
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Launcher,
    contiguous,
    each,
    empty,
    integers,
    wide,
    zeros,
)
from shardwise.backend.kernels.place.embedding import check_rows

__all__ = [
    "embedding_backward",
    "gather_along",
    "launch",
    "resample_backward",
    "resample_forward",
    "scatter_along",
    "scatter_rows",
]

launch = Launcher(DeviceSource("place/scatter.cu"))


def gather_along(x: Array, index: Array, negative: bool = False) -> Array:
    outer, size, inner = x.shape
    out = empty(x, (outer, index.shape[1], inner))
    _check_size("gather_along", size, out.size)
    launch(
        "gather_along",
        x.dtype,
        each(out.size, 16),
        *(contiguous(x), integers(index), out, size, index.shape[1], inner, out.size),
    )
    return out


def scatter_along(g: Array, index: Array, size: int) -> Array:
    outer, n, inner = g.shape
    _check_size("scatter_along", size, g.size)
    out = zeros(g, (outer, size, inner), wide(g.dtype))
    arguments = (contiguous(g), integers(index), out, size, n, inner, g.size)
    launch("scatter_along", g.dtype, each(g.size, 16), *arguments)
    return out.astype(g.dtype, copy=False)


def scatter_rows(g: Array, index: Array, size: int) -> Array:
    outer, n, inner = g.shape
    _check_size("scatter_rows", size, g.size)
    out = zeros(g, (outer, size, inner), wide(g.dtype))
    arguments = (contiguous(g), integers(index), out, size, n, inner, g.size)
    launch("scatter_rows", g.dtype, each(g.size, g.itemsize), *arguments)
    return out.astype(g.dtype, copy=False)


def embedding_backward(g: Array, index: Array, rows: int) -> Array:
    if g.shape[:-1] != index.shape:
        raise ShapeError(
            f"embedding_backward: the index has shape {index.shape}, so the gradient should have "
            f"that and one dim more, and it has shape {g.shape}."
        )
    check_rows("embedding_backward", index, rows)
    features = g.shape[-1]
    flat = contiguous(g).reshape(1, math.prod(index.shape), features)
    return scatter_rows(flat, index.reshape(-1), rows).reshape(rows, features)


def resample_forward(x: Array, index: Array, weight: Array) -> Array:
    (outer, size, inner), (taps, n) = x.shape, index.shape
    out = empty(x, (outer, n, inner))
    _check_size("resample_forward", size, out.size)
    _resample("resample_forward", x, index, weight, out, (taps, size, n, inner, out.size))
    return out


def resample_backward(g: Array, index: Array, weight: Array, size: int) -> Array:
    (outer, n, inner), taps = g.shape, index.shape[0]
    _check_size("resample_backward", size, g.size)
    dx = zeros(g, (outer, size, inner), wide(g.dtype))
    _resample("resample_backward", g, index, weight, dx, (taps, size, n, inner, g.size))
    return dx.astype(g.dtype, copy=False)


def _resample(name: str, x: Array, index: Array, weight: Array, out: Array, sizes: Shape) -> None:
    launch(
        name, x.dtype, each(sizes[-1], 16), contiguous(x), integers(index), contiguous(weight), out, *sizes
    )


def _check_size(name: str, size: int, count: int) -> None:
    if size == 0 and count > 0:
        raise IndexRangeError(
            f"{name}: {count} indices point into a dim of size 0, so each is out of range. "
            "Give the dim elements, or no indices."
        )
