"""Rounding and signs, element by element: steps, whose gradient is zero."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = [
    "Ceil", "Copysign", "Floor", "Frac", "Heaviside", "Rint", "Round", "Trunc",
]  # fmt: skip


def _is_whole(a: Array) -> bool:
    return a.dtype.kind in "iub"  # some versions of NumPy would make float64 of them


class Floor(Function):
    """The next integer below; integers stay what they are."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return a.copy() if _is_whole(a) else np.floor(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Ceil(Function):
    """The next integer above; integers stay what they are."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return a.copy() if _is_whole(a) else np.ceil(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Trunc(Function):
    """The next integer towards zero; integers stay what they are."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return a.copy() if _is_whole(a) else np.trunc(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Rint(Function):
    """The nearest integer, halves to even; integers become float64, as in NumPy."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.rint(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Round(Function):
    """The nearest number of so many decimals, halves to even."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array, decimals: int = 0) -> Array:
        return a.copy() if a.dtype.kind == "b" else np.round(a, decimals)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Frac(Function):
    """What `Trunc` takes away; its gradient is 1."""

    signature = "*"

    @staticmethod
    @np.errstate(invalid="ignore")  # infinity less infinity
    def forward(ctx: Context, a: Array) -> Array:
        return a - a if _is_whole(a) else a - np.trunc(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)


class Copysign(Function):
    """The size of the first with the sign of the second; the gradient is 0 where the first is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.copysign(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        da = g * np.copysign(np.sign(a), a * np.copysign(1.0, b)) if ctx.need[0] else None
        return da, np.zeros_like(g) if ctx.need[1] else None


class Heaviside(Function):
    """0 below zero, 1 above, and the second input at zero, which alone has a gradient there."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, values: Array) -> Array:
        ctx.save(a)
        return np.heaviside(a, values)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        da = np.zeros_like(g) if ctx.need[0] else None
        return da, np.where(np.equal(a, 0), g, 0.0) if ctx.need[1] else None
