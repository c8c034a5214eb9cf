"""Fused layer normalisation for NumPy arrays; the formulas are in ``norm.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, contiguous
from shardwise.backend.kernels.row.norm import check_parameters

__all__ = ["layer_norm_backward", "layer_norm_forward"]

# Rows whose gradients are added up in the arrays' precision before they join a total in double precision,
# so that rounding errors do not grow with the number of rows.
_BLOCK = 128


def layer_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    check_parameters(x, weight, bias)
    rows = as_rows(x)
    count = len(rows)
    scale = _parameter(weight, 1.0, rows)
    shift = _parameter(bias, 0.0, rows)
    y = np.empty_like(rows)
    mean, rstd = np.empty(count, x.dtype), np.empty(count, x.dtype)
    _forward(rows, scale, shift, eps, y, mean, rstd)
    leading = x.shape[:-1]
    return y.reshape(x.shape), mean.reshape(leading), rstd.reshape(leading)


def layer_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    if g.shape != x.shape:
        raise ShapeError(
            f"layer_norm_backward: the gradient has shape {g.shape}, and the input {x.shape}; "
            "wanted the same."
        )
    check_parameters(x, weight, None)
    rows = as_rows(x)
    count, features = rows.shape
    scale = _parameter(weight, 1.0, rows)
    if mean is None or rstd is None:
        mean, rstd = np.empty(count, x.dtype), np.empty(count, x.dtype)
        _statistics(rows, eps, mean, rstd)
    else:
        mean, rstd = contiguous(mean).reshape(-1), contiguous(rstd).reshape(-1)
    dx = np.empty_like(rows)
    dweight, dbias = np.empty(features, x.dtype), np.empty(features, x.dtype)
    _backward(as_rows(g), rows, scale, mean, rstd, dx, dweight, dbias)
    return dx.reshape(x.shape), dweight, dbias


def _parameter(value: Array | None, default: float, rows: Array) -> Array:
    return np.full(rows.shape[1], default, rows.dtype) if value is None else contiguous(value)


@fused(
    lambda real: (
        *(read(real, 2), read(real, 1), read(real, 1), float64),
        *(write(real, 2), write(real, 1), write(real, 1)),
    )
)
def _forward(x: Array, weight: Array, bias: Array, eps: float, y: Array, mean: Array, rstd: Array) -> None:
    real = x.dtype.type
    count, features = x.shape
    share, floor = real(1) / real(features), real(eps)
    for i in range(count):
        row, out = x[i], y[i]
        total = real(0)
        for j in range(features):
            total += row[j]
        centre = total * share
        total = real(0)
        for j in range(features):
            d = row[j] - centre
            total += d * d
        # In double precision: LLVM approximates single ones by rsqrt and Newton's step, whose limits are NaN.
        scale = real(1.0 / math.sqrt(np.float64(total * share + floor)))
        for j in range(features):
            out[j] = (row[j] - centre) * scale * weight[j] + bias[j]
        mean[i] = centre
        rstd[i] = scale


@fused(lambda real: (read(real, 2), float64, write(real, 1), write(real, 1)))
def _statistics(x: Array, eps: float, mean: Array, rstd: Array) -> None:
    real = x.dtype.type
    count, features = x.shape
    share, floor = real(1) / real(features), real(eps)
    for i in range(count):
        row = x[i]
        total = real(0)
        for j in range(features):
            total += row[j]
        centre = total * share
        total = real(0)
        for j in range(features):
            d = row[j] - centre
            total += d * d
        mean[i] = centre
        rstd[i] = real(1.0 / math.sqrt(np.float64(total * share + floor)))


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 1), read(real, 1), read(real, 1)),
        *(write(real, 2), write(real, 1), write(real, 1)),
    )
)
def _backward(
    g: Array, x: Array, weight: Array, mean: Array, rstd: Array, dx: Array, dweight: Array, dbias: Array
) -> None:
    real = x.dtype.type
    count, features = x.shape
    share = real(1) / real(features)
    weight_part, bias_part = np.empty(features, x.dtype), np.empty(features, x.dtype)
    weight_sum, bias_sum = np.zeros(features, np.float64), np.zeros(features, np.float64)
    for start in range(0, count, _BLOCK):
        weight_part[:] = real(0)
        bias_part[:] = real(0)
        for i in range(start, min(start + _BLOCK, count)):
            row, gradient, out = x[i], g[i], dx[i]
            centre, scale = mean[i], rstd[i]
            plain, along = real(0), real(0)
            for j in range(features):
                weighted = gradient[j] * weight[j]
                plain += weighted
                along += weighted * ((row[j] - centre) * scale)
            plain *= share
            along *= share
            for j in range(features):
                normal = (row[j] - centre) * scale
                out[j] = (gradient[j] * weight[j] - plain - normal * along) * scale
                weight_part[j] += gradient[j] * normal
                bias_part[j] += gradient[j]
        for j in range(features):
            weight_sum[j] += weight_part[j]
            bias_sum[j] += bias_part[j]
    for j in range(features):
        dweight[j] = real(weight_sum[j])
        dbias[j] = real(bias_sum[j])
