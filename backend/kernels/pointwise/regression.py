"""Losses of numbers and their gradients, element by element: how far `x` is from `target`.

The gradients are those with respect to `x`; those of `target` are their opposite.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = [
    "absolute_error_backward", "absolute_error_forward", "huber_backward", "huber_forward",
    "smooth_l1_backward", "smooth_l1_forward", "squared_error_backward", "squared_error_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.pointwise.regression_cpu"


def _squared_error_forward(x: Array, target: Array) -> Array:
    """``(x - target)²``."""
    d = x - target
    return d * d


def _squared_error_backward(g: Array, x: Array, target: Array) -> Array:
    """The gradient of :func:`squared_error_forward`, times `g`."""
    return (x - target) * (2.0 * g)


def _absolute_error_forward(x: Array, target: Array) -> Array:
    """``|x - target|``."""
    return np.abs(x - target)


def _absolute_error_backward(g: Array, x: Array, target: Array) -> Array:
    """The gradient of :func:`absolute_error_forward`, times `g`; 0 where both are equal."""
    return np.sign(x - target) * g


def _smooth_l1_forward(x: Array, target: Array, beta: float) -> Array:
    """``d² / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, of ``d = x - target``."""
    size = np.abs(x - target)
    near = np.minimum(size, beta)  # not a choice by where, whose square could overflow
    return near * near * (0.5 / beta) + (size - near)


def _smooth_l1_backward(g: Array, x: Array, target: Array, beta: float) -> Array:
    """The gradient of :func:`smooth_l1_forward`, times `g`."""
    return np.clip(x - target, -beta, beta) * g * (1.0 / beta)


def _huber_forward(x: Array, target: Array, delta: float) -> Array:
    """``d² / 2`` where ``|d| <= delta``, else ``delta * (|d| - delta / 2)``, of ``d = x - target``."""
    size = np.abs(x - target)
    near = np.minimum(size, delta)  # not a choice by where, whose square could overflow
    return 0.5 * near * near + delta * (size - near)


def _huber_backward(g: Array, x: Array, target: Array, delta: float) -> Array:
    """The gradient of :func:`huber_forward`, times `g`."""
    return np.clip(x - target, -delta, delta) * g


squared_error_forward = pointwise_kernel(_squared_error_forward, f"{_FUSED}:squared_error_forward", arrays=2)
squared_error_backward = pointwise_kernel(
    _squared_error_backward, f"{_FUSED}:squared_error_backward", arrays=3
)
absolute_error_forward = pointwise_kernel(
    _absolute_error_forward, f"{_FUSED}:absolute_error_forward", arrays=2
)
absolute_error_backward = pointwise_kernel(
    _absolute_error_backward, f"{_FUSED}:absolute_error_backward", arrays=3
)
smooth_l1_forward = pointwise_kernel(_smooth_l1_forward, f"{_FUSED}:smooth_l1_forward", arrays=2)
smooth_l1_backward = pointwise_kernel(_smooth_l1_backward, f"{_FUSED}:smooth_l1_backward", arrays=3)
huber_forward = pointwise_kernel(_huber_forward, f"{_FUSED}:huber_forward", arrays=2)
huber_backward = pointwise_kernel(_huber_backward, f"{_FUSED}:huber_backward", arrays=3)
