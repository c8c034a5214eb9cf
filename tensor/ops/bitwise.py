"""Bits of integers, which of booleans are logic; divisors. Element by element, without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError
from shardwise.tensor.function import Context, Function

__all__ = ["BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Gcd", "Lcm", "LeftShift", "RightShift"]


def _check(name: str, *operands: Any, booleans: bool = True) -> None:
    """Refuse floats and complex numbers, whose bits mean something else."""
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        fits = isinstance(operand, (bool, int)) if dtype is None else dtype.kind in "iub"
        if not fits:
            got = type(operand).__name__ if dtype is None else dtype
            kinds = "integers, bit by bit, or booleans" if booleans else "integers"
            remedy = "compare first, as in x != 0, or cast" if booleans else "cast"
            raise DTypeError(f"{name} takes {kinds}, not {got}; {remedy} with astype()")


class BitwiseAnd(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("&", a, b)
        return np.bitwise_and(a, b)


class BitwiseOr(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("|", a, b)
        return np.bitwise_or(a, b)


class BitwiseXor(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("^", a, b)
        return np.bitwise_xor(a, b)


class BitwiseNot(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        _check("~", a)
        return np.invert(a)


class LeftShift(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("<<", a, b, booleans=False)
        return np.left_shift(a, b)


class RightShift(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check(">>", a, b, booleans=False)
        return np.right_shift(a, b)


class Gcd(Function):
    """The greatest common divisor."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("gcd", a, b, booleans=False)
        return np.gcd(a, b)


class Lcm(Function):
    """The least common multiple."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check("lcm", a, b, booleans=False)
        return np.lcm(a, b)
