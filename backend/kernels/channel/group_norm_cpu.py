"""Fused group normalisation for NumPy arrays; the formulas are in ``group_norm.py``.

Arrays are seen as (batch, groups, channels of a group, places). Sums over a channel are made in the arrays'
precision, sums over channels in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["group_norm_backward", "group_norm_forward"]


def group_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float
) -> tuple[Array, Array, Array]:
    parts = _parts(x, groups)
    y = np.empty_like(parts)
    mean, variance = np.empty(parts.shape[:2], x.dtype), np.empty(parts.shape[:2], x.dtype)
    scale, shift = _parameter(weight, 1.0, x), _parameter(bias, 0.0, x)
    _forward(parts, scale, shift, eps, y, mean, variance)
    return y.reshape(x.shape), mean, variance


def group_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array | None,
    variance: Array | None,
    groups: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    if mean is None or variance is None:
        _, mean, variance = group_norm_forward(x, None, None, groups, eps)
    parts = _parts(x, groups)
    dx = np.empty_like(parts)
    dweight, dbias = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
    statistics = contiguous(mean), contiguous(variance)
    _backward(_parts(g, groups), parts, _parameter(weight, 1.0, x), *statistics, eps, dx, dweight, dbias)
    return dx.reshape(x.shape), dweight, dbias


def _parts(x: Array, groups: int) -> Array:
    batch, channels = x.shape[:2]
    return contiguous(x).reshape(batch, groups, channels // groups, math.prod(x.shape[2:]))


def _parameter(value: Array | None, default: float, x: Array) -> Array:
    return np.full(x.shape[1], default, x.dtype) if value is None else contiguous(value)


@fused(
    lambda real: (
        *(read(real, 4), read(real, 1), read(real, 1), float64),
        *(write(real, 4), write(real, 2), write(real, 2)),
    )
)
def _forward(
    x: Array, weight: Array, bias: Array, eps: float, y: Array, mean: Array, variance: Array
) -> None:
    real = x.dtype.type
    batch, groups, channels, places = x.shape
    count = np.float64(channels) * np.float64(places)
    for n in range(batch):
        for q in range(groups):
            flat, whole = x[n, q], 0.0
            for c in range(channels):
                row, total = flat[c], real(0)
                for p in range(places):
                    total += row[p]
                whole += total
            centre = real(whole / count)
            whole = 0.0
            for c in range(channels):
                row, total = flat[c], real(0)
                for p in range(places):
                    d = row[p] - centre
                    total += d * d
                whole += total
            mean[n, q], variance[n, q] = centre, real(whole / count)
            scale = 1.0 / math.sqrt(whole / count + eps)
            for c in range(channels):
                factor, shift = real(scale * weight[q * channels + c]), bias[q * channels + c]
                row, out = flat[c], y[n, q, c]
                for p in range(places):
                    out[p] = (row[p] - centre) * factor + shift


@fused(
    lambda real: (
        *(read(real, 4), read(real, 4), read(real, 1), read(real, 2), read(real, 2), float64),
        *(write(real, 4), write(real, 1), write(real, 1)),
    )
)
def _backward(
    g: Array, x: Array, weight: Array, mean: Array, variance: Array, eps: float, dx: Array, dweight: Array,
    dbias: Array,
) -> None:  # fmt: skip
    real = x.dtype.type
    batch, groups, channels, places = x.shape
    count = np.float64(channels) * np.float64(places)
    weight_sums = np.zeros(groups * channels, np.float64)
    bias_sums = np.zeros(groups * channels, np.float64)
    for n in range(batch):
        for q in range(groups):
            centre, scale = mean[n, q], 1.0 / math.sqrt(np.float64(variance[n, q]) + eps)
            plain, along = 0.0, 0.0
            for c in range(channels):
                row, gradient = x[n, q, c], g[n, q, c]
                first, second = real(0), real(0)
                for p in range(places):
                    first += gradient[p]
                    second += gradient[p] * (row[p] - centre)
                k = q * channels + c
                bias_sums[k] += first
                weight_sums[k] += second * scale
                plain += first * weight[k]
                along += second * weight[k]
            constant, slope = real(plain * scale / count), real(along * scale * scale * scale / count)
            for c in range(channels):
                factor = real(scale * weight[q * channels + c])
                row, gradient, out = x[n, q, c], g[n, q, c], dx[n, q, c]
                for p in range(places):
                    out[p] = gradient[p] * factor - constant - (row[p] - centre) * slope
    for k in range(groups * channels):
        dweight[k], dbias[k] = real(weight_sums[k]), real(bias_sums[k])
