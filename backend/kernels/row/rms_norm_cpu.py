"""Fused root-mean-square normalisation for NumPy arrays; the formulas are in ``rms_norm.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, contiguous
from shardwise.backend.kernels.row.rms_norm import check_scale

__all__ = ["rms_norm_backward", "rms_norm_forward"]

# Rows whose gradients are added up in the arrays' precision before they join a total in double precision,
# so that rounding errors do not grow with the number of rows.
_BLOCK = 128


def rms_norm_forward(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    check_scale(x, weight)
    rows = as_rows(x)
    y, scale = np.empty_like(rows), np.empty(len(rows), x.dtype)
    _forward(rows, _factors(weight, rows), eps, y, scale)
    return y.reshape(x.shape), scale.reshape(x.shape[:-1])


def rms_norm_backward(
    g: Array, x: Array, weight: Array | None, scale: Array | None, eps: float
) -> tuple[Array, Array]:
    if g.shape != x.shape:
        raise ShapeError(
            f"rms_norm_backward: the gradient has shape {g.shape}, and the input {x.shape}; wanted the same."
        )
    check_scale(x, weight)
    rows = as_rows(x)
    if scale is None:
        scale = rms_norm_forward(x, None, eps)[1]
    dx, dweight = np.empty_like(rows), np.empty(rows.shape[1], x.dtype)
    _backward(as_rows(g), rows, _factors(weight, rows), contiguous(scale).reshape(-1), dx, dweight)
    return dx.reshape(x.shape), dweight


def _factors(weight: Array | None, rows: Array) -> Array:
    return np.ones(rows.shape[1], rows.dtype) if weight is None else contiguous(weight)


@fused(lambda real: (read(real, 2), read(real, 1), float64, write(real, 2), write(real, 1)))
def _forward(x: Array, weight: Array, eps: float, y: Array, scale: Array) -> None:
    real = x.dtype.type
    count, features = x.shape
    share, floor = real(1) / real(features), real(eps)
    for i in range(count):
        row, out = x[i], y[i]
        total = real(0)
        for j in range(features):
            total += row[j] * row[j]
        # In double precision: LLVM approximates single ones by rsqrt and Newton's step, whose limits are NaN.
        factor = real(1.0 / math.sqrt(np.float64(total * share + floor)))
        for j in range(features):
            out[j] = row[j] * factor * weight[j]
        scale[i] = factor


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 1), read(real, 1)),
        *(write(real, 2), write(real, 1)),
    )
)
def _backward(g: Array, x: Array, weight: Array, scale: Array, dx: Array, dweight: Array) -> None:
    real = x.dtype.type
    count, features = x.shape
    share = real(1) / real(features)
    part, whole = np.empty(features, x.dtype), np.zeros(features, np.float64)
    for start in range(0, count, _BLOCK):
        part[:] = real(0)
        for i in range(start, min(start + _BLOCK, count)):
            row, gradient, out, factor = x[i], g[i], dx[i], scale[i]
            along = real(0)
            for j in range(features):
                along += gradient[j] * weight[j] * row[j]
            along *= share * factor * factor
            for j in range(features):
                out[j] = (gradient[j] * weight[j] - row[j] * along) * factor
                part[j] += gradient[j] * row[j] * factor
        for j in range(features):
            whole[j] += part[j]
    for j in range(features):
        dweight[j] = real(whole[j])
