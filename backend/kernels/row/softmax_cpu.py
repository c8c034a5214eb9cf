"""Fused softmax for NumPy arrays; the formulas are in ``softmax.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows
from shardwise.backend.kernels.scalar.math_cpu import difference_plus, exp_of_negative, row_maximum

__all__ = ["log_softmax_backward", "log_softmax_forward", "softmax_backward", "softmax_forward"]


def softmax_forward(x: Array) -> Array:
    rows = as_rows(x)
    y = np.empty_like(rows)
    _softmax_forward(rows, y)
    return y.reshape(x.shape)


def softmax_backward(g: Array, y: Array) -> Array:
    dx = np.empty(y.shape, y.dtype)
    _softmax_backward(*_paired("softmax_backward", g, y), as_rows(dx))
    return dx


def log_softmax_forward(x: Array) -> Array:
    rows = as_rows(x)
    y = np.empty_like(rows)
    _log_softmax_forward(rows, y)
    return y.reshape(x.shape)


def log_softmax_backward(g: Array, y: Array) -> Array:
    dx = np.empty(y.shape, y.dtype)
    _log_softmax_backward(*_paired("log_softmax_backward", g, y), as_rows(dx))
    return dx


def _paired(name: str, g: Array, y: Array) -> tuple[Array, Array]:
    if g.shape != y.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {g.shape}, and the output {y.shape}; wanted the same."
        )
    return as_rows(g), as_rows(y)


@fused(lambda real: (read(real, 2), write(real, 2)))
def _softmax_forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    rows, columns = x.shape
    for i in range(rows):
        row, out = x[i], y[i]
        highest = row_maximum(row, columns)
        total = real(0)
        for j in range(columns):
            e = exp_of_negative(row[j] - highest)
            out[j] = e
            total += e
        share = real(1) / total
        for j in range(columns):
            out[j] *= share


@fused(lambda real: (read(real, 2), read(real, 2), write(real, 2)))
def _softmax_backward(g: Array, y: Array, dx: Array) -> None:
    real = y.dtype.type
    rows, columns = y.shape
    for i in range(rows):
        gradient, row, out = g[i], y[i], dx[i]
        along = real(0)
        for j in range(columns):
            along += gradient[j] * row[j]
        for j in range(columns):
            out[j] = row[j] * (gradient[j] - along)


@fused(lambda real: (read(real, 2), write(real, 2)))
def _log_softmax_forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    rows, columns = x.shape
    for i in range(rows):
        row, out = x[i], y[i]
        highest = row_maximum(row, columns)
        total = real(0)
        for j in range(columns):
            total += exp_of_negative(row[j] - highest)
        minus_logarithm = -real(math.log(total))
        for j in range(columns):
            out[j] = difference_plus(row[j], highest, minus_logarithm)


@fused(lambda real: (read(real, 2), read(real, 2), write(real, 2)))
def _log_softmax_backward(g: Array, y: Array, dx: Array) -> None:
    real = y.dtype.type
    rows, columns = y.shape
    for i in range(rows):
        gradient, row, out = g[i], y[i], dx[i]
        total = real(0)
        for j in range(columns):
            total += gradient[j]
        for j in range(columns):
            out[j] = gradient[j] - exp_of_negative(row[j]) * total
