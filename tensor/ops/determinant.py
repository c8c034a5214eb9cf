"""Determinants, and their logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.inverse import Inv
from shardwise.tensor.ops.matrix import adjoint, attempt, check_matrices, columns_scaled

__all__ = ["Cofactor", "Det", "SlogDet", "logdet"]

Shape = tuple[int, ...]


def _third_of_cube(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
    """LAPACK's count for an LU factorisation."""
    return 2 * math.prod(shapes[0]) * shapes[0][-1] // 3


class Det(Function):
    """The determinants of square matrices; their gradient is right for singular ones as well."""

    signature = "...[m][n]->..."
    precision = "wide"
    flops = staticmethod(_third_of_cube)

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        check_matrices("det", a)
        ctx.save(a)
        with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN are the answer
            return np.linalg.det(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (np.expand_dims(g, (-2, -1)) * conj(Cofactor.apply(a)),)


class Cofactor(Function):
    """The derivatives of the determinant by each element: ``det(a) * inv(a).T``, also where det is 0.

    The gradient of this (the second derivative of a determinant) is known for invertible matrices only.
    """

    signature = "...[m][n]->...[m][n]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        u, s, vh = attempt("det", np.linalg.svd, a, why="has NaN in it, so that its gradient is unknown")
        others = np.where(np.eye(s.shape[-1], dtype=bool, like=a), 1.0, np.expand_dims(s, -2))
        with np.errstate(over="ignore", invalid="ignore"):
            products = np.prod(others, axis=-1)
            phase = np.linalg.det(u) * np.linalg.det(vh)
            inner = columns_scaled(conj(u), products) @ conj(vh)
            out = np.expand_dims(phase, (-2, -1)) * inner
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        inverse = np.swapaxes(Inv.apply(a), -1, -2)
        h = conj(g)
        total = np.sum(h * out, axis=(-2, -1), keepdims=True)
        return (conj(total * inverse - out @ np.swapaxes(h, -1, -2) @ inverse),)


class SlogDet(Function):
    """The sign (or the phase) of the determinants, and the logarithm of their absolute value."""

    signature = "...[m][n]->...,..."
    precision = "wide"
    flops = staticmethod(_third_of_cube)

    @staticmethod
    def forward(ctx: Context, a: Array) -> tuple[Array, Array]:
        check_matrices("slogdet", a)
        with np.errstate(invalid="ignore"):
            sign, log = np.linalg.slogdet(a)
        ctx.save(a, sign)
        return sign, log

    @staticmethod
    def backward(ctx: Context, g_sign: Array, g_log: Array) -> Gradients:
        a, sign = ctx.saved
        factor = g_log
        if sign.dtype.kind == "c":  # a phase turns by the imaginary part of what the logarithm grows by
            turn = conj(g_sign) * sign
            factor = g_log - 0.5 * (turn - conj(turn))
        return (np.expand_dims(factor, (-2, -1)) * adjoint(Inv.apply(a)),)


def logdet(a: Any) -> Any:
    """Return the logarithms of determinants: NaN where those are negative, -inf where they are 0."""
    sign, log = SlogDet.apply(a)
    if sign.dtype.kind == "c":
        return np.log(sign) + log
    return np.where(sign < 0, math.nan, log)
