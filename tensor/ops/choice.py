"""Choices between values, element by element.

`Where` lies with the arithmetic. What was not chosen gets a gradient of zero, also where the gradient
that arrives is infinite or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.choice import larger_share, within
from shardwise.backend.kernels.pointwise.combination import clip
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.precision import are_wide_floats

__all__ = ["Clip", "Fmax", "Fmin", "Maximum", "Minimum", "NanToNum"]

_finfo: Callable[[Any], Any] = ml_dtypes.finfo  # NumPy's does not know bfloat16


class Maximum(Function):
    """The larger of two, NaN if one is; where they are equal each gets half of the gradient."""

    signature = "*"
    commutes = "max"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.maximum(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = (_as_array(x, g) for x in ctx.saved)
        da = larger_share(g, a, b) if ctx.need[0] else None
        return da, larger_share(g, b, a) if ctx.need[1] else None


class Minimum(Function):
    """The smaller of two, NaN if one is; where they are equal each gets half of the gradient."""

    signature = "*"
    commutes = "min"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.minimum(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = (_as_array(x, g) for x in ctx.saved)
        da = larger_share(g, b, a) if ctx.need[0] else None
        return da, larger_share(g, a, b) if ctx.need[1] else None


def _as_array(x: Any, g: Array) -> Any:
    """Return an array of one element for a number."""
    return np.full_like(g, x, shape=()) if isinstance(x, (int, float)) else x


class Fmax(Function):
    """The larger of two, the number if one is NaN; where they are equal the first gets the gradient."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.fmax(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _give(ctx, g, np.logical_or(a >= b, np.isnan(b)))


class Fmin(Function):
    """The smaller of two, the number if one is NaN; where they are equal the first gets the gradient."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.fmin(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _give(ctx, g, np.logical_or(a <= b, np.isnan(b)))


def _give(ctx: Context, g: Array, first: Any) -> Gradients:
    da = np.where(first, g, 0.0) if ctx.need[0] else None
    return da, np.where(first, 0.0, g) if ctx.need[1] else None


class Clip(Function):
    """Values kept between `low` and `high`, either of which may be None; `high` where the two cross.

    At the bounds the values still get the gradient, and the bounds none; outside it is the other way.
    """

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array, low: Any = None, high: Any = None) -> Array:
        ctx.save(a, low, high)
        if low is None and high is None:
            return a.copy()
        if _is_number(low) and _is_number(high) and are_wide_floats(a):
            return clip(a, -math.inf if low is None else low, math.inf if high is None else high)
        return np.clip(a, low, high)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, low, high = ctx.saved
        da = dlow = dhigh = None
        if low is None and high is None:
            return g, None, None
        if _is_number(low) and _is_number(high):
            low, high = -math.inf if low is None else low, math.inf if high is None else high
            return within(g, a, low, high), None, None
        if ctx.need[0]:
            da = g
            if low is not None:
                da = np.where(a >= low, da, 0.0)
            if high is not None:
                da = np.where(a <= high, da, 0.0)
        if ctx.need[1]:
            below = a < low
            if high is not None:
                below = np.logical_and(below, low < high)
            dlow = np.where(below, g, 0.0)
        if ctx.need[2]:
            above = a > high
            if low is not None:
                above = np.logical_or(above, high < low)
            dhigh = np.where(above, g, 0.0)
        return da, dlow, dhigh


def _is_number(bound: Any) -> bool:
    return bound is None or (isinstance(bound, (int, float)) and bound == bound)  # NaN makes all NaN


class NanToNum(Function):
    """Numbers in the place of NaN and the infinities; the gradient is zero there."""

    signature = "*"
    exact = True  # the largest number is that of the dtype itself

    @staticmethod
    def forward(
        ctx: Context, a: Array, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Array:
        ctx.save(a)
        if a.dtype.kind in "iub":
            return a.copy()
        if a.dtype.kind == "c":
            real, imag = (_finite(part, nan, posinf, neginf) for part in (np.real(a), np.imag(a)))
            return real + 1j * imag
        return _finite(a, nan, posinf, neginf)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        if a.dtype.kind == "c":
            real = np.where(np.isfinite(np.real(a)), np.real(g), 0.0)
            return (real + 1j * np.where(np.isfinite(np.imag(a)), np.imag(g), 0.0),)
        return (np.where(np.isfinite(a), g, np.zeros_like(g)),)


def _finite(a: Array, nan: float, posinf: float | None, neginf: float | None) -> Array:
    most = float(_finfo(a.dtype).max)
    high = np.full_like(a, most if posinf is None else posinf)
    low = np.full_like(a, -most if neginf is None else neginf)
    a = np.where(np.isnan(a), np.full_like(a, nan), a)
    return np.where(np.isfinite(a), a, np.where(a > 0, high, low))
