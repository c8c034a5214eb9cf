"""Fused activations of straight lines for NumPy arrays, one element each; see ``piecewise.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise

__all__ = [
    "between", "beyond", "hard_sigmoid_backward", "hard_sigmoid_forward", "hard_swish_backward",
    "hard_swish_forward", "soft_shrink_forward",
]  # fmt: skip


@pointwise
def between(values: float, x: float, low: float, high: float) -> float:
    real = type(x)
    return real(0) if (x <= low) | (x >= high) else values


@pointwise
def beyond(values: float, x: float, size: float) -> float:
    real = type(x)
    return real(0) if (x >= -size) & (x <= size) else values


@pointwise
def hard_sigmoid_forward(x: float) -> float:
    real = type(x)
    y = x + real(3)
    y = real(0) if y < 0.0 else y
    y = real(6) if y > 6.0 else y
    return y * real(1 / 6)


@pointwise
def hard_sigmoid_backward(g: float, x: float) -> float:
    real = type(x)
    slope = g * real(1 / 6)
    return slope if (x > -3.0) & (x < 3.0) else real(0)


@pointwise
def hard_swish_forward(x: float) -> float:
    real = type(x)
    cut = real(-3) if x < -3.0 else x
    y = cut + real(3)
    y = real(6) if y > 6.0 else y
    return cut * (y * real(1 / 6))


@pointwise
def hard_swish_backward(g: float, x: float) -> float:
    real = type(x)
    middle = g * (x * real(1 / 3) + real(0.5))
    high = g if x >= 3.0 else middle
    return real(0) if x <= -3.0 else high


@pointwise
def soft_shrink_forward(x: float, size: float) -> float:
    cut = -size if x < -size else x
    cut = size if cut > size else cut
    return x - cut
