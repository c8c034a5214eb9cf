"""Activations of straight lines and one parabola. They save their input alone.

The slope at each kink is PyTorch's, and said with each.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["HardShrink", "HardSigmoid", "HardSwish", "HardTanh", "SoftShrink"]


class HardTanh(Function):
    """``x`` kept between `low` and `high`; the slope is 0 at both, unlike that of `Clip`."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, low: float, high: float) -> Array:
        ctx.low, ctx.high = low, high
        ctx.save(x)
        return np.clip(x, low, high)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where((x <= ctx.low) | (x >= ctx.high), 0.0, g),)


class HardSigmoid(Function):
    """``clip(x + 3, 0, 6) / 6`` (Courbariaux et al. 2015); the slope is 0 at -3 and 3."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return np.clip(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where((x > -3.0) & (x < 3.0), g * (1.0 / 6.0), 0.0),)


class HardSwish(Function):
    """``x * clip(x + 3, 0, 6) / 6`` (Howard et al. 2019)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        cut = np.maximum(x, -3.0)  # -inf * 0 would be NaN
        return cut * (np.minimum(cut + 3.0, 6.0) * (1.0 / 6.0))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        middle = np.clip(x, -3.0, 3.0) * (1.0 / 3.0) + 0.5
        return (np.where(x <= -3.0, 0.0, np.where(x >= 3.0, g, g * middle)),)


class SoftShrink(Function):
    """``x`` moved towards 0 by `size`, and 0 where that would cross it; the slope at the kinks is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, size: float) -> Array:
        ctx.size = size
        ctx.save(x)
        return x - np.clip(x, -size, size)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where((x >= -ctx.size) & (x <= ctx.size), 0.0, g),)


class HardShrink(Function):
    """``x`` where it is farther from 0 than `size`, else 0; the slope at the jumps is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, size: float) -> Array:
        ctx.size = size
        ctx.save(x)
        return np.where((x >= -size) & (x <= size), 0.0, x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where((x >= -ctx.size) & (x <= ctx.size), 0.0, g),)
