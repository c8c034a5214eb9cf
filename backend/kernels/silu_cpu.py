"""Fused SiLU for NumPy arrays; the formulas are in ``silu.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.contiguous import contiguous
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.math_cpu import exp

__all__ = ["silu_backward", "silu_forward"]

_LOWEST, _CUT = -1000.0, 45.0  # see the plain formulas


def silu_forward(x: Array) -> Array:
    x = contiguous(x)
    y = np.empty_like(x)
    _forward(x.reshape(-1), y.reshape(-1))
    return y


def silu_backward(g: Array, x: Array) -> Array:
    if g.shape != x.shape:
        raise ShapeError(
            f"silu_backward: the gradient has shape {g.shape}, and the input {x.shape}; wanted the same."
        )
    g, x = contiguous(g), contiguous(x)
    dx = np.empty_like(x)
    _backward(g.reshape(-1), x.reshape(-1), dx.reshape(-1))
    return dx


@fused(lambda real: (read(real, 1), write(real, 1)))
def _forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    zero, one, lowest = real(0), real(1), real(_LOWEST)
    for i in range(x.size):
        v = x[i]
        v = lowest if v < lowest else v
        e = exp(-abs(v))
        y[i] = v * (e if v < zero else one) / (one + e)


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1)))
def _backward(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    zero, one, low, high = real(0), real(1), real(-_CUT), real(_CUT)
    for i in range(x.size):
        v = x[i]
        v = low if v < low else v
        v = high if v > high else v
        e = exp(-abs(v))
        r = one / (one + e)
        s = (e if v < zero else one) * r
        dx[i] = g[i] * s * (one + v * ((one if v < zero else e) * r))
