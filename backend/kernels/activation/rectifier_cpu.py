"""Fused rectifiers for NumPy arrays, one element each; the formulas are in ``rectifier.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise
from shardwise.backend.kernels.scalar.exponential_cpu import expm1_of_negative
from shardwise.backend.kernels.scalar.math_cpu import exp

__all__ = [
    "elu_backward", "elu_forward", "leaky_relu_backward", "leaky_relu_forward", "prelu_backward",
    "prelu_forward", "prelu_weight", "relu_forward", "threshold_backward", "threshold_forward",
]  # fmt: skip


@pointwise
def relu_forward(x: float) -> float:
    real = type(x)
    return real(0) if x <= 0.0 else x


@pointwise
def leaky_relu_forward(x: float, slope: float) -> float:
    low = x * slope
    return x if x > 0.0 else low


@pointwise
def leaky_relu_backward(g: float, x: float, slope: float) -> float:
    low = g * slope
    return g if x > 0.0 else low


@pointwise
def prelu_forward(x: float, weight: float) -> float:
    low = weight * x
    return x if x > 0.0 else low


@pointwise
def prelu_backward(g: float, x: float, weight: float) -> float:
    low = weight * g
    return g if x > 0.0 else low


@pointwise
def prelu_weight(g: float, x: float) -> float:
    real = type(x)
    low = x * g
    return real(0) if x > 0.0 else low


@pointwise
def elu_forward(x: float, alpha: float, scale: float, rate: float) -> float:
    real = type(x)
    high = scale * x
    # Of positive numbers 0 is taken, of NaN NaN.
    low = (alpha * scale) * expm1_of_negative(rate * (real(0) if x > 0.0 else x))
    return high if x > 0.0 else low


@pointwise
def elu_backward(g: float, x: float, alpha: float, scale: float, rate: float) -> float:
    real = type(x)
    slope = (alpha * scale * rate) * exp(rate * (real(0) if x > 0.0 else x))
    return g * (scale if x > 0.0 else slope)


@pointwise
def threshold_forward(x: float, threshold: float, value: float) -> float:
    return value if x <= threshold else x


@pointwise
def threshold_backward(g: float, x: float, threshold: float) -> float:
    real = type(x)
    return real(0) if x <= threshold else g
