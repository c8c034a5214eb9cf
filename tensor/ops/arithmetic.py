"""Pointwise arithmetic, choices between values, casts and copies.

Gradients come back in the broadcast shape; the engine sums them down to each input's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.kernels.memory.transposition import compact
from shardwise.backend.kernels.pointwise.bias import WIDE, add_row
from shardwise.backend.kernels.pointwise.casting import cast
from shardwise.backend.kernels.pointwise.choice import choose, fill, fill_rest
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.precision import are_wide_floats

__all__ = [
    "Add", "Cast", "Clone", "Div", "FloorDiv", "Fmod", "Mul", "Neg", "Remainder", "Sub", "TruncDiv", "Where",
    "masked_fill", "quotient",
]  # fmt: skip


class Add(Function):
    signature = "*"
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        if a.__class__ is b.__class__ and a.ndim > b.ndim and a.size >= WIDE:
            return add_row(a, b) if a.shape[-b.ndim :] == b.shape else a + b
        return a + b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return g, g


class Sub(Function):
    signature = "*"
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return a - b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return g, -g if ctx.need[1] else None


class Mul(Function):
    signature = "*"
    linear = "each"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b if ctx.need[0] else None)
        return a * b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return g * conj(b) if ctx.need[0] else None, g * conj(a) if ctx.need[1] else None


class Div(Function):
    signature = "*"
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b)
        return a / b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        # Divided twice: the square of b would overflow, or vanish, halfway through the range of floats.
        db = -g * conj((a / b) / b) if ctx.need[1] else None
        return g / conj(b) if ctx.need[0] else None, db


class Neg(Function):
    signature = "*"
    monotone = -1
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return -a

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (-g,)


class FloorDiv(Function):
    """The quotient rounded down: steps, whose gradient is zero."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.floor_divide(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return tuple(np.zeros_like(g) if need else None for need in ctx.need)


class TruncDiv(Function):
    """The quotient rounded towards zero: steps, whose gradient is zero. Of integers an integer."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        down = np.floor_divide(a, b)
        if down.dtype.kind not in "iu":
            return np.trunc(a / b)
        inexact = np.logical_and(np.remainder(a, b) != 0, np.less(a, 0) != np.less(b, 0))
        return down + inexact.astype(down.dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return tuple(np.zeros_like(g) if need else None for need in ctx.need)


def quotient(rounding_mode: str | None) -> type[Function]:
    """Return the division that rounds as PyTorch's ``rounding_mode`` says."""
    divisions: dict[str | None, type[Function]] = {None: Div, "floor": FloorDiv, "trunc": TruncDiv}
    if rounding_mode not in divisions:
        raise ArgumentError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
    return divisions[rounding_mode]


class Remainder(Function):
    """What is left of `a` when `b` is taken out, with the sign of `b` (Python's ``%``)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b if ctx.need[1] else None)
        return np.remainder(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return g, -g * np.floor_divide(a, b) if ctx.need[1] else None


class Fmod(Function):
    """What is left of `a` when `b` is taken out, with the sign of `a` (C's ``fmod``)."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a if ctx.need[1] else None, b if ctx.need[1] else None)
        return np.fmod(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        # The quotient that fmod took is whole; a / b alone may round up to the next one.
        return g, -g * np.rint((a - np.fmod(a, b)) / b) if ctx.need[1] else None


class Where(Function):
    """One or the other; what was not chosen gets a gradient of zero, whatever arrives."""

    signature = "*"
    linear = (1, 2)
    exact = True

    @staticmethod
    def forward(ctx: Context, condition: Array, a: Array, b: Array) -> Array:
        ctx.save(condition)
        return _chosen(condition, _weak(a, b), _weak(b, a))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (condition,) = ctx.saved
        zero = _weak(0.0, g)
        da = _chosen(condition, g, zero) if ctx.need[1] else None
        return None, da, _chosen(condition, zero, g) if ctx.need[2] else None


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """Return ``numpy.where(condition, a, b)``, whose branches processors cannot guess, without branches."""
    if isinstance(b, (int, float)):
        if are_wide_floats(a):
            return fill_rest(a, condition, b)
    elif isinstance(a, (int, float)):
        if are_wide_floats(b):
            return fill(b, condition, a)
    elif are_wide_floats(a, b):
        return choose(a, b, condition)
    return np.where(condition, a, b)


def _weak(x: Any, other: Any) -> Any:
    """Give a Python number the dtype of a bfloat16 array that it meets, which NumPy does not."""
    narrow = getattr(getattr(other, "dtype", None), "kind", "") == "V"
    return np.full_like(other, x, shape=()) if narrow and isinstance(x, (bool, int, float)) else x


def masked_fill(a: Any, mask: Any, value: Any) -> Any:
    """Return `a` with `value` where `mask` is true, in the dtype of `a`."""
    kind, dtype = getattr(mask, "dtype", type(mask)), a.dtype
    if kind not in (np.bool_, bool):
        raise DTypeError(f"masked_fill takes a mask of booleans, not {kind}; compare first, as in x != 0")
    if dtype == np.bool_ and isinstance(value, int):
        value = bool(value)
    given = getattr(value, "dtype", None) or np.dtype(type(value))
    if dtype.kind != "V" and not np.can_cast(np.result_type(dtype, given), dtype, "same_kind"):
        raise DTypeError(f"masked_fill cannot put {given} into {dtype}; cast one of both with astype()")
    if hasattr(value, "dtype") and given != dtype:
        value = Cast.apply(value, dtype=dtype)
    return Where.apply(mask, value, a)


class Cast(Function):
    """Another dtype; the engine casts the gradient back."""

    signature = "*"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, dtype: Any) -> Array:
        return cast(a, dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)


class Clone(Function):
    signature = "*"
    linear = "all"
    monotone = 1
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return compact(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)
