"""Activations of straight lines and one parabola, and their gradients."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = [
    "between", "beyond", "hard_sigmoid_backward", "hard_sigmoid_forward", "hard_swish_backward",
    "hard_swish_forward", "soft_shrink_forward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.activation.piecewise_cpu"


def _between(values: Array, x: Array, low: float, high: float) -> Array:
    """`values` where ``low < x < high`` or `x` is NaN, else 0: the gradient of clipping without its ends."""
    return np.where((x <= low) | (x >= high), 0.0, values)


def _beyond(values: Array, x: Array, size: float) -> Array:
    """`values` where `x` is farther from 0 than `size` or NaN, else 0."""
    return np.where((x >= -size) & (x <= size), 0.0, values)


def _hard_sigmoid_forward(x: Array) -> Array:
    """``clip(x + 3, 0, 6) / 6``."""
    return np.clip(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


def _hard_sigmoid_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`hard_sigmoid_forward` at `x`, times `g`; the slope is 0 at -3 and 3."""
    return np.where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), 0.0)


def _hard_swish_forward(x: Array) -> Array:
    """``x * clip(x + 3, 0, 6) / 6``."""
    cut = np.maximum(x, -3.0)  # -inf * 0 would be NaN
    return cut * (np.minimum(cut + 3.0, 6.0) * (1.0 / 6.0))


def _hard_swish_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`hard_swish_forward` at `x`, times `g`; 0 at -3, 1 at 3."""
    middle = np.clip(x, -3.0, 3.0) * (1.0 / 3.0) + 0.5
    return np.where(x <= -3.0, 0.0, np.where(x >= 3.0, g, g * middle))


def _soft_shrink_forward(x: Array, size: float) -> Array:
    """``x`` moved towards 0 by `size`, and 0 where that would cross it."""
    return x - np.clip(x, -size, size)


between = pointwise_kernel(_between, f"{_FUSED}:between", arrays=2)
beyond = pointwise_kernel(_beyond, f"{_FUSED}:beyond", arrays=2)
hard_sigmoid_forward = pointwise_kernel(_hard_sigmoid_forward, f"{_FUSED}:hard_sigmoid_forward", arrays=1)
hard_sigmoid_backward = pointwise_kernel(_hard_sigmoid_backward, f"{_FUSED}:hard_sigmoid_backward", arrays=2)
hard_swish_forward = pointwise_kernel(_hard_swish_forward, f"{_FUSED}:hard_swish_forward", arrays=1)
hard_swish_backward = pointwise_kernel(_hard_swish_backward, f"{_FUSED}:hard_swish_backward", arrays=2)
soft_shrink_forward = pointwise_kernel(_soft_shrink_forward, f"{_FUSED}:soft_shrink_forward", arrays=1)
