"""Several operations of arithmetic in one, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.combination import add_product, add_quotient, interpolate
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.precision import are_wide_floats

__all__ = ["Addcdiv", "Addcmul", "Ldexp", "Lerp"]


class Addcmul(Function):
    """``a + value * b * c``."""

    signature = "*"
    linear = "each"
    addends = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, c: Array, value: complex = 1) -> Array:
        ctx.value = value
        ctx.save(b if ctx.need[2] else None, c if ctx.need[1] else None)
        if isinstance(value, float | int) and are_wide_floats(a, b, c):
            return add_product(a, b, c, value)
        product = b * c
        return a + (product if value == 1 else value * product)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        b, c = ctx.saved
        scaled = g if ctx.value == 1 else g * conj(ctx.value)
        return g, scaled * conj(c) if ctx.need[1] else None, scaled * conj(b) if ctx.need[2] else None


class Addcdiv(Function):
    """``a + value * b / c``."""

    signature = "*"
    linear = (0, 1)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, c: Array, value: complex = 1) -> Array:
        ctx.value = value
        ctx.save(b if ctx.need[2] else None, c)
        if isinstance(value, float | int) and are_wide_floats(a, b, c):
            return add_quotient(a, b, c, value)
        quotient = b / c
        return a + (quotient if value == 1 else value * quotient)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        b, c = ctx.saved
        scaled = g if ctx.value == 1 else g * conj(ctx.value)
        db = scaled / conj(c) if ctx.need[1] else None
        return g, db, -scaled * conj((b / c) / c) if ctx.need[2] else None


class Lerp(Function):
    """``a + weight * (b - a)``, worked out from the nearer end: at a weight of 1 it is exactly `b`."""

    signature = "*"
    linear = (0, 1)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, weight: Array) -> Array:
        ctx.save(a if ctx.need[2] else None, b if ctx.need[2] else None, weight)
        if are_wide_floats(a, b, weight):
            return interpolate(a, b, weight)
        span = b - a
        if isinstance(weight, (bool, int, float, complex)):
            return a + weight * span if abs(weight) < 0.5 else b - (1.0 - weight) * span
        return np.where(np.abs(weight) < 0.5, a + weight * span, b - (1.0 - weight) * span)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b, weight = ctx.saved
        weight = conj(weight)
        da = g * (1.0 - weight) if ctx.need[0] else None
        db = g * weight if ctx.need[1] else None
        return da, db, g * conj(b - a) if ctx.need[2] else None


class Ldexp(Function):
    """``a * 2 ** b``; an integer `b` does not widen the dtype."""

    signature = "*"
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        scale = _power_of_two(a, b)
        out = a * scale
        ctx.save(a, b, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b, out = ctx.saved
        da = g * _power_of_two(a, b) if ctx.need[0] else None
        return da, g * (math.log(2.0) * conj(out)) if ctx.need[1] else None


def _power_of_two(a: Any, b: Any) -> Any:
    given = getattr(b, "dtype", None)
    if given is not None and given.kind in "iub" and getattr(a, "dtype", given).kind in "fc":
        b = b.astype(np.real(a).dtype)
    return 2.0**b
