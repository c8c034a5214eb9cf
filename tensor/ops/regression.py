"""Losses of numbers, element by element: how far `x` is from `target`. They save both."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
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
        d = x - target
        return d * d

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, (x - target) * (2.0 * g))


class AbsoluteError(Function):
    """``|x - target|``, whose slope at 0 is 0."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array) -> Array:
        ctx.save(x, target)
        return np.abs(x - target)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, np.sign(x - target) * g)


class SmoothL1(Function):
    """``d² / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, of ``d = x - target``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, beta: float) -> Array:
        ctx.width = beta
        ctx.save(x, target)
        size = np.abs(x - target)
        near = np.minimum(size, beta)  # not a choice by where, whose square could overflow
        return near * near * (0.5 / beta) + (size - near)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        cut = np.clip(x - target, -ctx.width, ctx.width)
        return _opposite(ctx, cut * g * (1.0 / ctx.width))


class Huber(Function):
    """``d² / 2`` where ``|d| <= delta``, else ``delta * (|d| - delta / 2)``, of ``d = x - target``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, delta: float) -> Array:
        ctx.width = delta
        ctx.save(x, target)
        size = np.abs(x - target)
        near = np.minimum(size, delta)  # not a choice by where, whose square could overflow
        return 0.5 * near * near + delta * (size - near)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        return _opposite(ctx, np.clip(x - target, -ctx.width, ctx.width) * g)
