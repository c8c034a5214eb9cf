"""Fused SiLU for NumPy arrays, one element each; the formulas are in ``silu.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise
from shardwise.backend.kernels.scalar.math_cpu import exp_of_negative

__all__ = ["silu_backward", "silu_forward"]


@pointwise
def silu_forward(x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-1000) if x < -1000.0 else x
    e = exp_of_negative(-abs(x))
    return x * (e if x < 0.0 else one) / (one + e)


@pointwise
def silu_backward(g: float, x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-45) if x < -45.0 else x
    x = real(45) if x > 45.0 else x
    e = exp_of_negative(-abs(x))
    r = one / (one + e)
    left = e * r
    s = left if x < 0.0 else r
    q = r if x < 0.0 else left
    return g * s * (one + x * q)
