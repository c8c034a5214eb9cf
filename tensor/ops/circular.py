"""Circular functions and their inverses, element by element, in radians."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj

__all__ = [
    "Arccos", "Arcsin", "Arctan", "Arctan2", "Cos", "Deg2Rad", "Rad2Deg", "Sin", "Sinc", "Tan",
]  # fmt: skip


class Sin(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.sin(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.cos(conj(a)),)


class Cos(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.cos(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (-g * np.sin(conj(a)),)


class Tan(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.tan(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        out = conj(out)
        return (g * (1.0 + out * out),)


class Arcsin(Function):
    """The inverse sine; its gradient is infinite at -1 and 1, and NaN beyond."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arcsin(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / _cosine_of_arcsine(conj(a)),)


class Arccos(Function):
    """The inverse cosine; its gradient is infinite at -1 and 1, and NaN beyond."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arccos(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (-g / _cosine_of_arcsine(conj(a)),)


def _cosine_of_arcsine(a: Array) -> Array:
    """``sqrt(1 - a * a)``, without the digits that the square would lose near 1."""
    if a.dtype.kind == "c":
        # Each root has its cut where the arcsine has one of its two. Subtracted, a real number leaves the
        # sign of an imaginary zero alone, which tells the side of the cut.
        return np.sqrt(-(a - 1.0)) * np.sqrt(a - (-1.0))
    return np.sqrt((1.0 - a) * (1.0 + a))


class Arctan(Function):
    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arctan(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        a = conj(a)
        return (g / (1.0 + a * a),)


class Arctan2(Function):
    """The angle of the point (x, y); at the origin its gradient is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, y: Array, x: Array) -> Array:
        ctx.save(y, x)
        return np.arctan2(y, x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        y, x = ctx.saved
        radius = np.hypot(y, x)
        # Divided twice: the square would overflow, or vanish, halfway through the range of floats.
        scaled = g / np.where(radius == 0, 1.0, radius)
        radius = np.where(radius == 0, math.inf, radius)
        dy = scaled * (x / radius) if ctx.need[0] else None
        return dy, -scaled * (y / radius) if ctx.need[1] else None


class Deg2Rad(Function):
    signature = "*"
    linear = "all"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.deg2rad(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g * (math.pi / 180.0),)


class Rad2Deg(Function):
    signature = "*"
    linear = "all"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.rad2deg(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g * (180.0 / math.pi),)


class Sinc(Function):
    """``sin(pi a) / (pi a)``, and 1 at 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        t = math.pi * a
        zero = np.equal(t, 0)
        return np.where(zero, 1.0, np.sin(t) / np.where(zero, 1.0, t))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        t = math.pi * conj(a)
        near = np.abs(t) < 1.0
        far = np.where(near, 1.0, t)
        slope = (np.cos(far) - np.sin(far) / far) / far  # whose terms cancel near 0
        return (g * (math.pi * np.where(near, _sinc_slope(np.where(near, t, 0.0)), slope)),)


_SLOPES = tuple((-1.0) ** n * 2 * n / math.factorial(2 * n + 1) for n in range(9, 0, -1))


def _sinc_slope(t: Array) -> Array:
    """The derivative of ``sin(t) / t`` by its series, to the last digits for ``|t| < 1``."""
    square = t * t
    total = _SLOPES[0] * square + _SLOPES[1]
    for coefficient in _SLOPES[2:]:
        total = total * square + coefficient
    return total * t
