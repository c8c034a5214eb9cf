"""Fused losses of numbers for NumPy arrays, one element each; the formulas are in ``regression.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise

__all__ = [
    "absolute_error_backward", "absolute_error_forward", "huber_backward", "huber_forward",
    "smooth_l1_backward", "smooth_l1_forward", "squared_error_backward", "squared_error_forward",
]  # fmt: skip


@pointwise
def squared_error_forward(x: float, target: float) -> float:
    d = x - target
    return d * d


@pointwise
def squared_error_backward(g: float, x: float, target: float) -> float:
    return (x - target) * (g + g)


@pointwise
def absolute_error_forward(x: float, target: float) -> float:
    return abs(x - target)


@pointwise
def absolute_error_backward(g: float, x: float, target: float) -> float:
    real = type(x)
    d = x - target
    sign = real(-1) if d < 0.0 else d  # NaN stays
    sign = real(1) if d > 0.0 else sign
    return sign * g


@pointwise
def smooth_l1_forward(x: float, target: float, beta: float) -> float:
    real = type(x)
    size = abs(x - target)
    near = beta if size > beta else size
    return near * near * (real(0.5) / beta) + (size - near)


@pointwise
def smooth_l1_backward(g: float, x: float, target: float, beta: float) -> float:
    real = type(x)
    d = x - target
    d = -beta if d < -beta else d
    d = beta if d > beta else d
    return d * g * (real(1) / beta)


@pointwise
def huber_forward(x: float, target: float, delta: float) -> float:
    real = type(x)
    size = abs(x - target)
    near = delta if size > delta else size
    return real(0.5) * near * near + delta * (size - near)


@pointwise
def huber_backward(g: float, x: float, target: float, delta: float) -> float:
    d = x - target
    d = -delta if d < -delta else d
    d = delta if d > delta else d
    return d * g
