"""CUDA batch norm and group norm; the formulas are in ``batch_norm.py`` and ``group_norm.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Argument,
    Launcher,
    check_same_shape,
    contiguous,
    each,
    empty,
    optional,
    rows,
    wide,
)
from shardwise.backend.kernels.reduction.reduction_cuda import add_parts

__all__ = [
    "batch_norm_backward",
    "batch_norm_forward",
    "group_norm_backward",
    "group_norm_forward",
    "launch",
]

launch = Launcher(DeviceSource("channel/planes.cu"))


def batch_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    x = contiguous(x)
    mean, variance = _over_batch(x)
    return _normalized(x, weight, bias, mean, variance, eps, x.shape[1], 1), mean, variance


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, variance: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    check_same_shape("batch_norm_backward", g, x)
    g, x = contiguous(g), contiguous(x)
    batch, channels = x.shape[:2]
    if mean is None or variance is None:
        mean, variance = _over_batch(x)
    else:
        mean, variance = _widened(mean, x), _widened(variance, x)
    sums = _products(g, x, mean, variance, eps, channels, 1).reshape(batch, 2 * channels)
    along, plain = (add_parts(sums, 2, i, 1.0, channels, mean.dtype) for i in range(2))
    share = channels / x.size if x.size else 0.0
    factor = share if weight is None else weight.astype(mean.dtype, copy=False) * share
    dx = _backward(g, x, weight, mean, variance, plain * factor, along * factor, eps, channels, 1)
    return dx, along.astype(x.dtype, copy=False), plain.astype(x.dtype, copy=False)


def group_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float
) -> tuple[Array, Array, Array]:
    x = contiguous(x)
    mean, variance = _over_groups(x, groups)
    y = _normalized(x, weight, bias, mean, variance, eps, 0, x.shape[1] // groups)
    shape = (x.shape[0], groups)
    return y, mean.reshape(shape), variance.reshape(shape)


def group_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array | None,
    variance: Array | None,
    groups: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    check_same_shape("group_norm_backward", g, x)
    g, x = contiguous(g), contiguous(x)
    batch, channels = x.shape[:2]
    group = channels // groups
    if mean is None or variance is None:
        mean, variance = _over_groups(x, groups)
    else:
        mean, variance = _widened(mean, x), _widened(variance, x)
    sums = _products(g, x, mean, variance, eps, 0, group)
    flat = sums.reshape(batch, 2 * channels)
    dweight, dbias = (add_parts(flat, 2, i, 1.0, channels, x.dtype) for i in range(2))
    if weight is not None:
        sums = sums.reshape(batch, channels, 2) * weight.astype(mean.dtype, copy=False).reshape(channels, 1)
    members = group * math.prod(x.shape[2:])
    means = np.sum(sums.reshape(batch * groups, group, 2), axis=1) * (1.0 / members if members else 0.0)
    along, plain = contiguous(means[:, 0]), contiguous(means[:, 1])
    return _backward(g, x, weight, mean, variance, plain, along, eps, 0, group), dweight, dbias


# Statistics are either per channel, then `per_channel` is how many channels there are; or it is 0, and they
# are per group of `group` channels of a sample.


def _over_batch(x: Array) -> tuple[Array, Array]:
    channels = x.shape[1]
    share = channels / x.size if x.size else 0.0
    mean = add_parts(_sums("plane_sums", x), 1, 0, share, channels, wide(x.dtype))
    squares = _sums("plane_squares", x, mean, channels, 1)
    return mean, add_parts(squares, 1, 0, share, channels, wide(x.dtype))


def _over_groups(x: Array, groups: int) -> tuple[Array, Array]:
    batch, channels = x.shape[:2]
    group = channels // groups
    members = group * math.prod(x.shape[2:])
    share = 1.0 / members if members else 0.0
    mean = np.sum(_sums("plane_sums", x).reshape(batch * groups, group), axis=1) * share
    squares = _sums("plane_squares", x, mean, 0, group)
    return mean, np.sum(squares.reshape(batch * groups, group), axis=1) * share


def _sums(name: str, x: Array, *between: Argument) -> Array:
    """One sum per plane, shape (batch, channels)."""
    sums = empty(x, x.shape[:2], wide(x.dtype))
    places = math.prod(x.shape[2:])
    launch(name, x.dtype, rows(sums.size, places, x.itemsize), x, *between, sums, sums.size, places)
    return sums


def _products(
    g: Array, x: Array, mean: Array, variance: Array, eps: float, per_channel: int, group: int
) -> Array:
    """Per plane, the sums of the gradient times the normalised input, and of the gradient."""
    sums = empty(x, (*x.shape[:2], 2), mean.dtype)
    planes, places = x.shape[0] * x.shape[1], math.prod(x.shape[2:])
    launch(
        "plane_products",
        x.dtype,
        rows(planes, places, x.itemsize),
        *(g, x, mean, variance, float(eps), per_channel, group, sums, planes, places),
    )
    return sums


def _normalized(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    per_channel: int,
    group: int,
) -> Array:
    y = empty(x, x.shape)
    launch(
        "normalize_planes",
        x.dtype,
        each(x.size, x.itemsize),
        *(x, mean, variance, float(eps), optional(weight), optional(bias)),
        *(x.shape[1], per_channel, group, y, x.size, math.prod(x.shape[2:])),
    )
    return y


def _backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    variance: Array,
    plain: Array,
    along: Array,
    eps: float,
    per_channel: int,
    group: int,
) -> Array:
    dx = empty(x, x.shape)
    launch(
        "normalize_planes_backward",
        x.dtype,
        each(x.size, x.itemsize),
        *(g, x, mean, variance, float(eps), optional(weight), plain, along),
        *(x.shape[1], per_channel, group, dx, x.size, math.prod(x.shape[2:])),
    )
    return dx


def _widened(statistic: Array, x: Array) -> Array:
    return contiguous(statistic.astype(wide(x.dtype), copy=False)).reshape(-1)
