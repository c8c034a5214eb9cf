"""Activations that treat negative and positive inputs differently, and their gradients."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = [
    "elu_backward", "elu_forward", "leaky_relu_backward", "leaky_relu_forward", "prelu_backward",
    "prelu_forward", "prelu_weight", "relu_forward", "threshold_backward", "threshold_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.activation.rectifier_cpu"


def _relu_forward(x: Array) -> Array:
    """The positive part; :func:`threshold_backward` with a threshold of 0 is its gradient."""
    return np.maximum(x, 0)


def _leaky_relu_forward(x: Array, slope: float) -> Array:
    """``x`` where it is positive, ``slope * x`` elsewhere."""
    return np.where(x > 0.0, x, x * slope)


def _leaky_relu_backward(g: Array, x: Array, slope: float) -> Array:
    """The gradient of :func:`leaky_relu_forward` at `x`, times `g`; the slope at 0 is `slope`."""
    return np.where(x > 0.0, g, g * slope)


def _prelu_forward(x: Array, weight: Array) -> Array:
    """:func:`leaky_relu_forward` with an array of slopes, which broadcasts."""
    return np.where(x > 0.0, x, weight * x)


def _prelu_backward(g: Array, x: Array, weight: Array) -> Array:
    """The gradient of :func:`prelu_forward` with respect to `x`, times `g`."""
    return np.where(x > 0.0, g, weight * g)


def _prelu_weight(g: Array, x: Array) -> Array:
    """The gradient of :func:`prelu_forward` with respect to each element's slope, times `g`."""
    return np.where(x > 0.0, 0.0, x * g)


def _elu_forward(x: Array, alpha: float, scale: float, rate: float) -> Array:
    """``scale * x`` where `x` is positive, ``scale * alpha * (exp(rate * x) - 1)`` elsewhere."""
    return np.where(x > 0.0, scale * x, (alpha * scale) * np.expm1(rate * np.minimum(x, 0.0)))


def _elu_backward(g: Array, x: Array, alpha: float, scale: float, rate: float) -> Array:
    """The gradient of :func:`elu_forward` at `x`, times `g`; the slope at 0 is that of the exponential."""
    above = x > 0.0
    # Cut by where, not by minimum, whose own gradient is half at 0.
    slope = (alpha * scale * rate) * np.exp(rate * np.where(above, 0.0, x))
    return g * np.where(above, scale, slope)


def _threshold_forward(x: Array, threshold: float, value: float) -> Array:
    """``x`` where it is above `threshold`, else `value`; NaN stays."""
    return np.where(x <= threshold, value, x)


def _threshold_backward(g: Array, x: Array, threshold: float) -> Array:
    """The gradient of :func:`threshold_forward` at `x`, times `g`; the slope at the threshold is 0."""
    return np.where(x <= threshold, 0.0, g)


relu_forward = pointwise_kernel(_relu_forward, f"{_FUSED}:relu_forward", arrays=1)
leaky_relu_forward = pointwise_kernel(_leaky_relu_forward, f"{_FUSED}:leaky_relu_forward", arrays=1)
leaky_relu_backward = pointwise_kernel(_leaky_relu_backward, f"{_FUSED}:leaky_relu_backward", arrays=2)
prelu_forward = pointwise_kernel(_prelu_forward, f"{_FUSED}:prelu_forward", arrays=2)
prelu_backward = pointwise_kernel(_prelu_backward, f"{_FUSED}:prelu_backward", arrays=3)
prelu_weight = pointwise_kernel(_prelu_weight, f"{_FUSED}:prelu_weight", arrays=2)
elu_forward = pointwise_kernel(_elu_forward, f"{_FUSED}:elu_forward", arrays=1)
elu_backward = pointwise_kernel(_elu_backward, f"{_FUSED}:elu_backward", arrays=2)
threshold_forward = pointwise_kernel(_threshold_forward, f"{_FUSED}:threshold_forward", arrays=1)
threshold_backward = pointwise_kernel(_threshold_backward, f"{_FUSED}:threshold_backward", arrays=2)
