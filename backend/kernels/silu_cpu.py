"""Fused SiLU for NumPy arrays, one element each; the formulas are in ``silu.py``."""

from __future__ import annotations

<<<<<<< Updated upstream
from shardwise.backend.kernels.math_cpu import exp
from shardwise.backend.kernels.pointwise_cpu import pointwise
=======
from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.math_cpu import exp
from shardwise.backend.kernels.pointwise import of_one, of_two
>>>>>>> Stashed changes

__all__ = ["silu_backward", "silu_forward"]


@pointwise
def silu_forward(x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-1000) if x < -1000.0 else x
    e = exp(-abs(x))
    return x * (e if x < 0.0 else one) / (one + e)


<<<<<<< Updated upstream
@pointwise
def silu_backward(g: float, x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-45) if x < -45.0 else x
    x = real(45) if x > 45.0 else x
    e = exp(-abs(x))
    r = one / (one + e)
    left = e * r
    s = left if x < 0.0 else r
    q = r if x < 0.0 else left
    return g * s * (one + x * q)
=======
def silu_forward(x: Array) -> Array:
    return of_one(_forward, x)


def silu_backward(g: Array, x: Array) -> Array:
    return of_two("silu_backward", _backward, g, x)


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
>>>>>>> Stashed changes
