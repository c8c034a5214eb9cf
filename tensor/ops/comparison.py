"""Comparisons and logic, element by element: booleans, without gradients."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function

__all__ = [
    "Equal", "Greater", "GreaterEqual", "IsFinite", "IsNaN", "Less", "LessEqual", "LogicalAnd",
    "LogicalNot", "LogicalOr", "NotEqual",
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


class IsNaN(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.isnan(a)


class IsFinite(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.isfinite(a)
