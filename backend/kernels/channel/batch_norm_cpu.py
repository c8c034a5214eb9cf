"""Fused batch normalisation for NumPy arrays; the formulas are in ``batch_norm.py``.

Arrays are seen as (batch, channels, places). Sums over a row are made in the arrays' precision, sums over
rows in double precision. Where there is one place only, the loops go along the channels.
"""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["batch_norm_backward", "batch_norm_forward"]


def batch_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    planes = _planes(x)
    channels = planes.shape[1]
    y = np.empty_like(planes)
    mean, variance = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
    scale, shift = _parameter(weight, 1.0, planes), _parameter(bias, 0.0, planes)
    if planes.shape[2] == 1:
        _statistics_of_columns(planes[:, :, 0], mean, variance)
        _normalise_columns(planes[:, :, 0], scale, shift, mean, variance, eps, y[:, :, 0])
    else:
        _forward(planes, scale, shift, eps, y, mean, variance)
    return y.reshape(x.shape), mean, variance


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, variance: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    if mean is None or variance is None:
        _, mean, variance = batch_norm_forward(x, None, None, eps)
    planes, gradients = _planes(x), _planes(g)
    channels = planes.shape[1]
    dx = np.empty_like(planes)
    dweight, dbias = np.empty(channels, x.dtype), np.empty(channels, x.dtype)
    scale = _parameter(weight, 1.0, planes)
    statistics = contiguous(mean), contiguous(variance)
    if planes.shape[2] == 1:
        columns = gradients[:, :, 0], planes[:, :, 0]
        _backward_of_columns(*columns, scale, *statistics, eps, dx[:, :, 0], dweight, dbias)
    else:
        _backward(gradients, planes, scale, *statistics, eps, dx, dweight, dbias)
    return dx.reshape(x.shape), dweight, dbias


def _planes(x: Array) -> Array:
    batch, channels = x.shape[:2]
    return contiguous(x).reshape(batch, channels, math.prod(x.shape[2:]))


def _parameter(value: Array | None, default: float, planes: Array) -> Array:
    return np.full(planes.shape[1], default, planes.dtype) if value is None else contiguous(value)


@fused(
    lambda real: (
        *(read(real, 3), read(real, 1), read(real, 1), float64),
        *(write(real, 3), write(real, 1), write(real, 1)),
    )
)
def _forward(
    x: Array, weight: Array, bias: Array, eps: float, y: Array, mean: Array, variance: Array
) -> None:
    real = x.dtype.type
    batch, channels, places = x.shape
    count = np.float64(batch) * np.float64(places)
    for c in range(channels):
        whole = 0.0
        for n in range(batch):
            row, total = x[n, c], real(0)
            for p in range(places):
                total += row[p]
            whole += total
        centre = real(whole / count)
        whole = 0.0
        for n in range(batch):
            row, total = x[n, c], real(0)
            for p in range(places):
                d = row[p] - centre
                total += d * d
            whole += total
        mean[c], variance[c] = centre, real(whole / count)
        factor = real(np.float64(weight[c]) / math.sqrt(whole / count + eps))
        shift = bias[c]
        for n in range(batch):
            row, out = x[n, c], y[n, c]
            for p in range(places):
                out[p] = (row[p] - centre) * factor + shift


@fused(
    lambda real: (
        *(read(real, 3), read(real, 3), read(real, 1), read(real, 1), read(real, 1), float64),
        *(write(real, 3), write(real, 1), write(real, 1)),
    )
)
def _backward(
    g: Array, x: Array, weight: Array, mean: Array, variance: Array, eps: float, dx: Array, dweight: Array,
    dbias: Array,
) -> None:  # fmt: skip
    real = x.dtype.type
    batch, channels, places = x.shape
    count = np.float64(batch) * np.float64(places)
    for c in range(channels):
        centre, scale = mean[c], 1.0 / math.sqrt(np.float64(variance[c]) + eps)
        plain, along = 0.0, 0.0
        for n in range(batch):
            row, gradient = x[n, c], g[n, c]
            first, second = real(0), real(0)
            for p in range(places):
                first += gradient[p]
                second += gradient[p] * (row[p] - centre)
            plain += first
            along += second
        dbias[c], dweight[c] = real(plain), real(along * scale)
        factor, constant = real(scale * weight[c]), real(plain / count)
        slope = real(along * scale * scale / count)
        for n in range(batch):
            row, gradient, out = x[n, c], g[n, c], dx[n, c]
            for p in range(places):
                out[p] = (gradient[p] - constant - (row[p] - centre) * slope) * factor


@fused(lambda real: (read(real, 2), write(real, 1), write(real, 1)))
def _statistics_of_columns(x: Array, mean: Array, variance: Array) -> None:
    real = x.dtype.type
    batch, channels = x.shape
    sums = np.zeros(channels, np.float64)
    for n in range(batch):
        row = x[n]
        for c in range(channels):
            sums[c] += row[c]
    for c in range(channels):
        mean[c] = real(sums[c] / batch)
        sums[c] = 0.0
    for n in range(batch):
        row = x[n]
        for c in range(channels):
            d = np.float64(row[c] - mean[c])
            sums[c] += d * d
    for c in range(channels):
        variance[c] = real(sums[c] / batch)


@fused(
    lambda real: (
        *(read(real, 2), read(real, 1), read(real, 1), read(real, 1), read(real, 1), float64),
        write(real, 2),
    )
)
def _normalise_columns(
    x: Array, weight: Array, bias: Array, mean: Array, variance: Array, eps: float, y: Array
) -> None:
    real = x.dtype.type
    batch, channels = x.shape
    factors = np.empty(channels, x.dtype)
    for c in range(channels):
        factors[c] = real(weight[c] / math.sqrt(np.float64(variance[c]) + eps))
    for n in range(batch):
        row, out = x[n], y[n]
        for c in range(channels):
            out[c] = (row[c] - mean[c]) * factors[c] + bias[c]


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 1), read(real, 1), read(real, 1), float64),
        *(write(real, 2), write(real, 1), write(real, 1)),
    )
)
def _backward_of_columns(
    g: Array, x: Array, weight: Array, mean: Array, variance: Array, eps: float, dx: Array, dweight: Array,
    dbias: Array,
) -> None:  # fmt: skip
    real = x.dtype.type
    batch, channels = x.shape
    plain, along = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
    for n in range(batch):
        row, gradient = x[n], g[n]
        for c in range(channels):
            plain[c] += gradient[c]
            along[c] += gradient[c] * (row[c] - mean[c])
    factors, slopes, constants = (
        np.empty(channels, x.dtype),
        np.empty(channels, x.dtype),
        np.empty(channels, x.dtype),
    )
    for c in range(channels):
        scale = 1.0 / math.sqrt(np.float64(variance[c]) + eps)
        dbias[c], dweight[c] = real(plain[c]), real(along[c] * scale)
        factors[c], constants[c] = real(scale * weight[c]), real(plain[c] / batch)
        slopes[c] = real(along[c] * scale * scale / batch)
    for n in range(batch):
        row, gradient, out = x[n], g[n], dx[n]
        for c in range(channels):
            out[c] = (gradient[c] - constants[c] - (row[c] - mean[c]) * slopes[c]) * factors[c]
