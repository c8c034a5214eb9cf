"""Comparisons and logic, element by element: booleans, without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function

__all__ = [
    "Equal", "Greater", "GreaterEqual", "IsClose", "IsFinite", "IsInf", "IsNaN", "Less", "LessEqual",
    "LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor", "NotEqual", "SignBit",
]  # fmt: skip


class Equal(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.equal(a, b)


class NotEqual(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.not_equal(a, b)


class Less(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.less(a, b)


class LessEqual(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.less_equal(a, b)


class Greater(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.greater(a, b)


class GreaterEqual(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.greater_equal(a, b)


class LogicalNot(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.logical_not(a)


class LogicalAnd(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.logical_and(a, b)


class LogicalOr(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.logical_or(a, b)


class LogicalXor(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        return np.logical_xor(a, b)


class IsNaN(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.isnan(a)


class IsInf(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.isinf(a)


class IsFinite(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.isfinite(a)


class SignBit(Function):
    """Whether the sign is negative, also of -0.0 and of NaN."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.signbit(a)


class IsClose(Function):
    """``|a - b| <= atol + rtol * |b|``; infinities are close to themselves, NaN if `equal_nan`."""

    signature = "*"

    @staticmethod
    @np.errstate(invalid="ignore")  # infinity less infinity
    def forward(
        ctx: Context, a: Array, b: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Array:
        near = np.abs(_signed(a) - _signed(b)) <= atol + rtol * np.abs(b)
        close = np.logical_or(np.equal(a, b), np.logical_and(np.isfinite(b), near))
        return np.logical_or(close, np.logical_and(np.isnan(a), np.isnan(b))) if equal_nan else close


def _signed(a: Any) -> Any:
    """Give booleans and unsigned numbers, which have no difference, a dtype that has one."""
    return 1.0 * a if getattr(a, "dtype", np.dtype(float)).kind in "ub" else a
