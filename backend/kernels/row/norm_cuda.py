"""CUDA layer norm and root mean square norm; the formulas are in ``norm.py`` and ``rms_norm.py``."""

from __future__ import annotations

import math

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Launcher,
    check_same_shape,
    columns,
    contiguous,
    empty,
    matrix,
    optional,
    parts,
    rows,
    wide,
)
from shardwise.backend.kernels.reduction.reduction_cuda import add_parts
from shardwise.backend.kernels.row.norm import check_parameters
from shardwise.backend.kernels.row.rms_norm import check_scale

__all__ = ["launch", "layer_norm_backward", "layer_norm_forward", "rms_norm_backward", "rms_norm_forward"]

launch = Launcher(DeviceSource("row/norm.cu"))


def layer_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    check_parameters(x, weight, bias)
    leading = x.shape[:-1]
    y, mean, rstd = empty(x, x.shape), _statistic(x), _statistic(x)
    x, count, many = matrix(x)
    launch(
        "layer_norm_forward",
        x.dtype,
        rows(count, many, x.itemsize),
        *(x, optional(weight), optional(bias), float(eps), y, mean, rstd, count, many),
    )
    return y, mean.reshape(leading), rstd.reshape(leading)


def layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    check_same_shape("layer_norm_backward", g, x)
    check_parameters(x, weight, None)
    dx = empty(x, x.shape)
    (x, count, many), g = matrix(x), contiguous(g)
    sizes = rows(count, many, x.itemsize)
    if mean is None or rstd is None:
        mean, rstd = _statistic(x), _statistic(x)
        launch("layer_norm_statistics", x.dtype, sizes, x, float(eps), mean, rstd, count, many)
    else:
        mean, rstd = _widened(mean, x), _widened(rstd, x)
    launch("layer_norm_backward", x.dtype, sizes, g, x, optional(weight), mean, rstd, dx, count, many)
    sums = empty(x, (parts(count), many * 2), mean.dtype)
    launch("layer_norm_parameters", x.dtype, columns(count, many), g, x, mean, rstd, sums, count, many)
    dweight, dbias = (add_parts(sums, 2, i, 1.0, many, x.dtype) for i in range(2))
    return dx, dweight, dbias


def rms_norm_forward(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    check_scale(x, weight)
    leading = x.shape[:-1]
    y, scale = empty(x, x.shape), _statistic(x)
    x, count, many = matrix(x)
    sizes = rows(count, many, x.itemsize)
    launch("rms_norm_forward", x.dtype, sizes, x, optional(weight), float(eps), y, scale, count, many)
    return y, scale.reshape(leading)


def rms_norm_backward(
    g: Array, x: Array, weight: Array | None, scale: Array | None, eps: float
) -> tuple[Array, Array]:
    check_same_shape("rms_norm_backward", g, x)
    check_scale(x, weight)
    dx = empty(x, x.shape)
    (x, count, many), g = matrix(x), contiguous(g)
    sizes = rows(count, many, x.itemsize)
    if scale is None:
        scale = _statistic(x)
        launch("rms_norm_statistics", x.dtype, sizes, x, float(eps), scale, count, many)
    else:
        scale = _widened(scale, x)
    launch("rms_norm_backward", x.dtype, sizes, g, x, optional(weight), scale, dx, count, many)
    sums = empty(x, (parts(count), many), scale.dtype)
    launch("rms_norm_parameters", x.dtype, columns(count, many), g, x, scale, sums, count, many)
    return dx, add_parts(sums, 1, 0, 1.0, many, x.dtype)


def _statistic(x: Array) -> Array:
    """Room for one number per row."""
    return empty(x, (math.prod(x.shape[:-1]),), wide(x.dtype))


def _widened(statistic: Array, x: Array) -> Array:
    return contiguous(statistic.astype(wide(x.dtype), copy=False)).reshape(-1)
