"""Fused gated units for NumPy arrays; the formulas are in ``gate.py``.

In memory, the halves of a dim of a contiguous array are blocks that alternate. Gradients are written by one
loop for each half, because LLVM vectorises no loop that writes to two places of one array.
"""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import device, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise
from shardwise.backend.kernels.scalar.exponential_cpu import sigmoid
from shardwise.backend.kernels.scalar.math_cpu import exp

__all__ = [
    "glu_backward", "glu_forward", "silu_gate_backward", "silu_gate_forward", "swiglu_backward",
    "swiglu_forward",
]  # fmt: skip


def glu_forward(x: Array, dim: int) -> Array:
    out = _empty_half(x, dim)
    _glu_forward(_blocks(x, dim), _blocks_of_half(out, dim))
    return out


def glu_backward(g: Array, x: Array, dim: int) -> Array:
    dx = np.empty(x.shape, x.dtype)
    _glu_backward(_blocks_of_half(g, dim), _blocks(x, dim), _blocks(dx, dim))
    return dx


def swiglu_forward(x: Array) -> Array:
    out = _empty_half(x, -1)
    _swiglu_forward(_blocks(x, -1), _blocks_of_half(out, -1))
    return out


def swiglu_backward(g: Array, x: Array) -> Array:
    dx = np.empty(x.shape, x.dtype)
    _swiglu_backward(_blocks_of_half(g, -1), _blocks(x, -1), _blocks(dx, -1))
    return dx


def _empty_half(x: Array, dim: int) -> Array:
    dim %= x.ndim
    return np.empty((*x.shape[:dim], x.shape[dim] // 2, *x.shape[dim + 1 :]), x.dtype)


def _blocks(x: Array, dim: int) -> Array:
    """`x` as (what is before the dim, the two halves, what is behind)."""
    dim %= x.ndim
    outer = math.prod(x.shape[:dim])
    return contiguous(x).reshape(outer, 2, x.shape[dim] // 2 * math.prod(x.shape[dim + 1 :]))


def _blocks_of_half(x: Array, dim: int) -> Array:
    dim %= x.ndim
    return contiguous(x).reshape(math.prod(x.shape[:dim]), math.prod(x.shape[dim:]))


@device()
def _silu(x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-1000) if x < -1000.0 else x  # see silu.py, also for what follows
    e = exp(-abs(x))
    return x * (e if x < 0.0 else one) / (one + e)


@device()
def _silu_slope(x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-45) if x < -45.0 else x
    x = real(45) if x > 45.0 else x
    s, q = sigmoid(x), sigmoid(-x)
    return s * (one + x * q)


@pointwise
def silu_gate_forward(gate: float, x: float) -> float:
    return _silu(gate) * x


@pointwise
def silu_gate_backward(g: float, gate: float, x: float) -> float:
    return g * x * _silu_slope(gate)


@fused(lambda real: (read(real, 3), write(real, 2)))
def _glu_forward(x: Array, out: Array) -> None:
    rows, n = out.shape
    for r in range(rows):
        a, b, y = x[r, 0], x[r, 1], out[r]
        for j in range(n):
            y[j] = a[j] * sigmoid(b[j])


@fused(lambda real: (read(real, 2), read(real, 3), write(real, 3)))
def _glu_backward(g: Array, x: Array, dx: Array) -> None:
    rows, n = g.shape
    one = x.dtype.type(1)
    for r in range(rows):
        a, b, da, db, grad = x[r, 0], x[r, 1], dx[r, 0], dx[r, 1], g[r]
        for j in range(n):
            db[j] = sigmoid(b[j])
        for j in range(n):
            da[j] = grad[j] * db[j]
        for j in range(n):
            db[j] = da[j] * a[j] * (one - db[j])


@fused(lambda real: (read(real, 3), write(real, 2)))
def _swiglu_forward(x: Array, out: Array) -> None:
    rows, n = out.shape
    for r in range(rows):
        a, b, y = x[r, 0], x[r, 1], out[r]
        for j in range(n):
            y[j] = _silu(a[j]) * b[j]


@fused(lambda real: (read(real, 2), read(real, 3), write(real, 3)))
def _swiglu_backward(g: Array, x: Array, dx: Array) -> None:
    rows, n = g.shape
    for r in range(rows):
        a, b, da, db, grad = x[r, 0], x[r, 1], dx[r, 0], dx[r, 1], g[r]
        for j in range(n):
            da[j] = grad[j] * b[j] * _silu_slope(a[j])
        for j in range(n):
            db[j] = grad[j] * _silu(a[j])
