"""Powers and roots, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.combination import cube, inverse_root
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.precision import are_wide_floats
from shardwise.tensor.ops.scalar import weak

__all__ = ["Cbrt", "FloatPower", "Hypot", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Square"]


class Pow(Function):
    """``a ** b``.

    ``a ** 0`` is 1 everywhere, with a gradient of 0. ``0 ** b`` is flat in `b` for ``b >= 0``; below 0 a
    real `a` has no power that could change with `b`, and the gradient of `b` is NaN.
    """

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return _power(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return _power_gradients(ctx, g)


class FloatPower(Function):
    """``a ** b`` in double precision, whatever the dtypes."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.float_power(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return _power_gradients(ctx, g)


def _power_gradients(ctx: Context, g: Array) -> Gradients:
    a, b = (_as_wide(x, g.dtype) for x in ctx.saved)
    da = db = None
    if ctx.need[0]:
        da = g * conj(_slope_in_base(a, b))
    if ctx.need[1]:
        if g.dtype.kind == "c" and getattr(a, "dtype", np.dtype(complex)).kind != "c":
            a = a + 0j  # a negative number has a logarithm there
        flat = np.logical_and(np.equal(a, 0), _not_below_zero(b))
        db = np.where(flat, 0.0, g * conj(a**b * weak(np.log, a)))
    return da, db


def _power(a: Any, b: Any) -> Any:
    """``a ** b``; whole powers by the size of `a`: those of negative numbers are slow in NumPy."""
    if isinstance(b, (int, float)) and are_wide_floats(a):
        if b == 3:
            return cube(a)
        if b == -0.5:
            return inverse_root(a)
        if (b > 2 or b < -1) and math.isfinite(b) and b == math.floor(b):
            size = np.abs(a) ** b
            return np.copysign(size, a) if b % 2 else size
    return a**b  # the operator has short ways for squares and roots, np.power has not


def _as_wide(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return floats as those of `dtype`, so that powers and logarithms are as exact as what they are for."""
    narrower = getattr(x, "dtype", dtype) != dtype and x.dtype.kind == dtype.kind == "f"
    return x.astype(dtype) if narrower else x


def _slope_in_base(a: Any, b: Any) -> Any:
    """``b * a ** (b - 1)``, and 0 where b is 0, whatever `a` is."""
    if isinstance(b, (bool, int, float, complex)):
        if b == 0:
            return np.zeros_like(a)
        return b * _power(a, b - 1)
    # Where 1 / a can be had, the product is 0 by itself, and has that slope in b.
    zero = np.logical_and(np.equal(b, 0), np.logical_not(np.isfinite(1.0 / a)))
    return np.where(zero, 0.0, b * a ** np.where(zero, 1.0, b - 1.0))


def _not_below_zero(b: Any) -> Any:
    return np.logical_and(np.real(b) >= 0, np.equal(np.imag(b), 0)) if b.dtype.kind == "c" else b >= 0


class Square(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.square(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (2.0 * conj(a)),)


class Reciprocal(Function):
    """``1 / a``; of integers in float64."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = 1.0 / a
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        out = conj(out)
        return (-g * (out * out),)


class Sqrt(Function):
    """The square root; its gradient is infinite at 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.sqrt(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g / (2.0 * conj(out)),)


class Rsqrt(Function):
    """``1 / sqrt(a)``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # 1 / 0
    def forward(ctx: Context, a: Array) -> Array:
        out = inverse_root(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        out = conj(out)
        return (-0.5 * g * (out * out * out),)


class Cbrt(Function):
    """The real cube root; its gradient is infinite at 0."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.cbrt(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g / (3.0 * out * out),)


class Hypot(Function):
    """``sqrt(a * a + b * b)``; at the origin its gradient is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        out = np.hypot(a, b)
        ctx.save(a, b, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b, out = ctx.saved
        scaled = g / np.where(np.equal(out, 0), 1.0, out)
        return scaled * a if ctx.need[0] else None, scaled * b if ctx.need[1] else None
