"""Pointwise arithmetic, choices between values, casts and copies.

Gradients come back in the broadcast shape; the engine sums them down to each input's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = [
    "Add", "Cast", "Clip", "Clone", "Div", "FloorDiv", "Maximum", "Minimum", "Mul", "Neg", "Pow",
    "Remainder", "Sub", "Where",
]  # fmt: skip


class Add(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return a + b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return g, g


class Sub(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return a - b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return g, -g if ctx.need[1] else None


class Mul(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b if ctx.need[0] else None)
        return a * b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return g * b if ctx.need[0] else None, g * a if ctx.need[1] else None


class Div(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b)
        return a / b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return g / b if ctx.need[0] else None, -g * a / (b * b) if ctx.need[1] else None


class Neg(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return -a

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (-g,)


class Pow(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.power(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        da = db = None
        if ctx.need[0]:  # where b is 0 the power is constant, also at a = 0
            da = g * np.where(b == 0, 0.0 * b, b * np.power(a, np.where(b == 0, 1.0 + 0.0 * b, b - 1.0)))
        if ctx.need[1]:  # 0 ** b is flat for b >= 0
            positive = a > 0
            db = g * np.where(positive, np.power(a, b) * np.log(np.where(positive, a, 1.0)), 0.0)
        return da, db


class FloorDiv(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.floor_divide(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return None, None


class Remainder(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b if ctx.need[1] else None)
        return np.remainder(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return g, -g * np.floor_divide(a, b) if ctx.need[1] else None


class Maximum(Function):
    """The larger of two; where they are equal each gets half of the gradient."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.maximum(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _share(ctx, g, a > b, a == b)


class Minimum(Function):
    """The smaller of two; where they are equal each gets half of the gradient."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.minimum(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _share(ctx, g, a < b, a == b)


def _share(ctx: Context, g: Array, first: Any, tie: Any) -> Gradients:
    half = np.where(tie, 0.5 * g, 0.0)
    da = np.where(first, g, half) if ctx.need[0] else None
    db = np.where(first, 0.0, np.where(tie, half, g)) if ctx.need[1] else None
    return da, db


class Where(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, condition: Array, a: Array, b: Array) -> Array:
        ctx.save(condition)
        return np.where(condition, a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (condition,) = ctx.saved
        da = np.where(condition, g, 0.0) if ctx.need[1] else None
        return None, da, np.where(condition, 0.0, g) if ctx.need[2] else None


class Clip(Function):
    """Values kept between `low` and `high`; the gradient is zero where they were outside."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, low: float | None, high: float | None) -> Array:
        ctx.low, ctx.high = low, high
        ctx.save(a)
        return np.clip(a, low, high)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        if ctx.low is not None:
            g = np.where(a < ctx.low, 0.0, g)
        if ctx.high is not None:
            g = np.where(a > ctx.high, 0.0, g)
        return (g,)


class Cast(Function):
    """Another dtype; the engine casts the gradient back."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, dtype: Any) -> Array:
        return a.astype(dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)


class Clone(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return a.copy()

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)
