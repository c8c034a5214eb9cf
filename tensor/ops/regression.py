"""Losses of numbers, element by element: how far `x` is from `target`. They save both."""

from __future__ import annotations

from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.regression import (
    absolute_error_backward,
    absolute_error_forward,
    huber_backward,
    huber_forward,
    smooth_l1_backward,
    smooth_l1_forward,
    squared_error_backward,
    squared_error_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["AbsoluteError", "Huber", "SmoothL1", "SquaredError"]


def _opposite(ctx: Context, dx: Any) -> Gradients:
    """Give the gradient to `x`, and its negative to `target`."""
    return dx if ctx.need[0] else None, -dx if ctx.need[1] else None


class SquaredError(Function):
    """``(x - target)²``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array) -> Array:
        ctx.save(x, target)
        return squared_error_forward(x, target)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, squared_error_backward(g, x, target))


class AbsoluteError(Function):
    """``|x - target|``, whose slope at 0 is 0."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array) -> Array:
        ctx.save(x, target)
        return absolute_error_forward(x, target)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, absolute_error_backward(g, x, target))


class SmoothL1(Function):
    """``d² / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, of ``d = x - target``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, beta: float) -> Array:
        ctx.width = beta
        ctx.save(x, target)
        return smooth_l1_forward(x, target, beta)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, smooth_l1_backward(g, x, target, ctx.width))


class Huber(Function):
    """``d² / 2`` where ``|d| <= delta``, else ``delta * (|d| - delta / 2)``, of ``d = x - target``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, delta: float) -> Array:
        ctx.width = delta
        ctx.save(x, target)
        return huber_forward(x, target, delta)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, huber_backward(g, x, target, ctx.width))
