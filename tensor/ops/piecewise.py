"""Activations of straight lines and one parabola. They save their input alone.

The slope at each kink is PyTorch's, and said with each.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.piecewise import (
    between,
    beyond,
    hard_sigmoid_backward,
    hard_sigmoid_forward,
    hard_swish_backward,
    hard_swish_forward,
    soft_shrink_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["HardShrink", "HardSigmoid", "HardSwish", "HardTanh", "SoftShrink"]


class HardTanh(Function):
    """``x`` kept between `low` and `high`; the slope is 0 at both, unlike that of `Clip`."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, x: Array, low: float, high: float) -> Array:
        ctx.low, ctx.high = low, high
        ctx.save(x)
        return np.clip(x, low, high)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (between(g, x, ctx.low, ctx.high),)


class HardSigmoid(Function):
    """``clip(x + 3, 0, 6) / 6`` (Courbariaux et al. 2015); the slope is 0 at -3 and 3."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return hard_sigmoid_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (hard_sigmoid_backward(g, x),)


class HardSwish(Function):
    """``x * clip(x + 3, 0, 6) / 6`` (Howard et al. 2019)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return hard_swish_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (hard_swish_backward(g, x),)


class SoftShrink(Function):
    """``x`` moved towards 0 by `size`, and 0 where that would cross it; the slope at the kinks is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, size: float) -> Array:
        ctx.size = size
        ctx.save(x)
        return soft_shrink_forward(x, size)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (beyond(g, x, ctx.size),)


class HardShrink(Function):
    """``x`` where it is farther from 0 than `size`, else 0; the slope at the jumps is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, size: float) -> Array:
        ctx.size = size
        ctx.save(x)
        return beyond(x, x, size)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (beyond(g, x, ctx.size),)
