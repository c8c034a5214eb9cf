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

__all__ = ["Cofactor", "CofactorSlope", "Det", "SlogDet", "logdet"]

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
    """The derivatives of the determinant by each element: ``det(a) * inv(a).T``, also where det is 0."""

    signature = "...[m][n]->...[m][n]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        u, s, vh, phase = _decomposed(a)
        with np.errstate(over="ignore", invalid="ignore"):
            inner = columns_scaled(conj(u), np.prod(_others(s), axis=-1)) @ conj(vh)
            return phase * inner

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (conj(CofactorSlope.apply(a, conj(g))),)


class CofactorSlope(Function):
    """How the cofactors change in the direction `h`; in the bases of the singular vectors it is short.

    Its own gradient by `a`, the third derivative of a determinant, is known for invertible matrices only.
    """

    signature = "...[m][n],...[m][n]->...[m][n]"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, h: Array) -> Array:
        ctx.save(a, h)
        u, s, vh, phase = _decomposed(a)
        diagonal = np.eye(s.shape[-1], dtype=bool, like=a)
        with np.errstate(over="ignore", invalid="ignore"):
            without = np.where(diagonal, 0.0, _without_two(_others(s)))
            turned = adjoint(u) @ h @ adjoint(vh)
            along = np.diagonal(turned, axis1=-2, axis2=-1)
            inner = np.expand_dims(np.sum(without * np.expand_dims(along, -2), axis=-1), -1) * diagonal
            inner = inner - without * np.swapaxes(turned, -1, -2)
            return phase * (conj(u) @ inner @ conj(vh))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, h = ctx.saved
        k = conj(g)
        da = None
        if ctx.need[0]:
            b = np.swapaxes(Inv.apply(a), -1, -2)
            bh, bk = b @ np.swapaxes(h, -1, -2), b @ np.swapaxes(k, -1, -2)
            of_h, of_k, of_both = _trace(bh), _trace(bk), _trace(bh @ bk)
            inner = (of_h * of_k - of_both) * b - of_k * (bh @ b) - of_h * (bk @ b) + (bh @ bk + bk @ bh) @ b
            da = conj(np.expand_dims(Det.apply(a), (-2, -1)) * inner)
        return da, conj(CofactorSlope.apply(a, k)) if ctx.need[1] else None


def _decomposed(a: Array) -> tuple[Array, Array, Array, Array]:
    """Return ``u, s, vh``, and the determinant of ``u @ vh``, with two more dims."""
    u, s, vh = attempt("det", np.linalg.svd, a, why="has NaN in it, so that its gradient is unknown")
    return u, s, vh, np.expand_dims(np.linalg.det(u) * np.linalg.det(vh), (-2, -1))


def _others(s: Array) -> Array:
    """Return in row ``i`` the numbers `s` with a 1 in place of number ``i``."""
    return np.where(np.eye(s.shape[-1], dtype=bool, like=s), 1.0, np.expand_dims(s, -2))


def _without_two(others: Array) -> Array:
    """Return at ``[i, j]`` the product of row ``i`` without its number ``j``."""
    one = np.ones_like(others[..., :1])
    before = np.cumprod(np.concatenate([one, others[..., :-1]], axis=-1), axis=-1)
    behind = np.cumprod(np.concatenate([one, others[..., :0:-1]], axis=-1), axis=-1)
    return before * np.flip(behind, axis=-1)


def _trace(a: Array) -> Array:
    return np.expand_dims(np.sum(np.diagonal(a, axis1=-2, axis2=-1), axis=-1), (-2, -1))


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
