"""Variances, norms and sums of exponentials over dims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.reduction.total import (
    largest_over,
    sum_of_sizes_over,
    sum_of_squares_over,
    sum_over,
)
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.extreme import check_choice, shared_by_ties
from shardwise.tensor.ops.reduce import kept_shape, reduced, spread_over, whole_signature

__all__ = ["LogSumExp", "Norm", "Std", "Var"]


class Var(Function):
    """The variance, divided by the count less `correction`; real for complex numbers."""

    signature = whole_signature
    precision = "wide"

    @staticmethod
    def forward(
        ctx: Context, a: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
    ) -> Array:
        ctx.save(a)
        return _variance(ctx, "var", a, dim, correction, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (_of_the_spread(ctx, a, 2.0 * g),)


class Std(Function):
    """The square root of the variance; its gradient is zero where the variance is."""

    signature = whole_signature
    precision = "wide"

    @staticmethod
    def forward(
        ctx: Context, a: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
    ) -> Array:
        out = np.sqrt(_variance(ctx, "std", a, dim, correction, keepdim))
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        flat = out == 0
        return (_of_the_spread(ctx, a, np.where(flat, 0.0, g / np.where(flat, 1.0, out))),)


def _variance(ctx: Context, op: str, a: Array, dim: Dims, correction: float, keepdim: bool) -> Array:
    ctx.dims = counted_dims(op, dim, a.ndim)
    count = math.prod([a.shape[d] for d in ctx.dims])
    ctx.freedom = count - correction
    if count == 0:
        return np.sum(np.real(a), axis=ctx.dims, keepdims=keepdim) * math.nan
    if ctx.freedom > 0:
        return np.var(a, axis=ctx.dims, ddof=correction, keepdims=keepdim)
    # Divided by zero without NumPy's warnings: what varies becomes infinite, and the rest NaN.
    spread = np.var(a, axis=ctx.dims, keepdims=keepdim)
    return np.where(spread > 0, math.inf, spread * math.nan)


def _of_the_spread(ctx: Context, a: Any, g: Any) -> Any:
    """Return ``g * (a - mean) / freedom``."""
    if 0 in a.shape:  # of which NumPy would not take the mean without a warning
        return spread_over(g, a.shape, ctx.dims)
    centred = a - np.mean(a, axis=ctx.dims, keepdims=True)
    scale = 1.0 / ctx.freedom if ctx.freedom > 0 else math.nan
    return np.reshape(g * scale, kept_shape(a.shape, ctx.dims)) * centred


class LogSumExp(Function):
    """The logarithm of the sum of exponentials, without overflow.

    Infinities count: inf wins, and where all are -inf the result is -inf and the gradient zero.
    """

    signature = whole_signature
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        ctx.dims = dims = counted_dims("logsumexp", dim, a.ndim)
        if math.prod([a.shape[d] for d in dims]) == 0:
            return np.sum(a, axis=dims, keepdims=keepdim) - math.inf
        top = reduced(largest_over, np.real(a), dims, True)
        total = reduced(sum_over, np.exp(a - _finite(top)), dims, True)
        none = total == 0
        out = np.where(none, -math.inf, np.log(np.where(none, 1.0, total)) + _finite(top))
        if not keepdim:
            out = np.reshape(out, tuple([n for d, n in enumerate(a.shape) if d not in dims]))
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if not ctx.saved:
            return (None,)
        a, out = ctx.saved
        kept = kept_shape(a.shape, ctx.dims)
        g, out = np.reshape(g, kept), np.reshape(out, kept)
        if a.dtype.kind == "c":
            return (g * conj(np.exp(a - out)),)
        largest = float(np.finfo(a.dtype).max)
        return (g * np.exp(np.minimum(a, largest) - _finite(out)),)


def _finite(shift: Any) -> Any:
    """Return what to subtract before exp: finite, so that infinities are not taken from each other."""
    if shift.dtype.kind == "c":
        return shift
    largest = float(np.finfo(shift.dtype).max)
    return np.where(shift == -math.inf, 0.0, np.minimum(shift, largest))


class Norm(Function):
    """The p-norm of the elements: of |x| to the power of p the sum, to the power of 1/p.

    Its gradient is zero where the norm is, and for p < 1 at elements that are zero; the elements
    that make up the norm of p = inf or -inf share it evenly.
    """

    signature = whole_signature
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, p: float = 2.0, dim: Dims = None, keepdim: bool = False) -> Array:
        ctx.dims, ctx.p = counted_dims("norm", dim, a.ndim), p
        out = _norm(a, p, ctx.dims, keepdim)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        p, kept = ctx.p, kept_shape(a.shape, ctx.dims)
        if p == 0:
            return (None,)
        if p == 1:
            return (np.reshape(g, kept) * _direction(a),)
        if abs(p) == math.inf:
            return (shared_by_ties(np.abs(a), out, ctx.dims, g) * _direction(a),)
        g, out = np.reshape(g, kept), np.reshape(out, kept)
        nothing = out == 0
        scaled = np.where(nothing, 0.0, g / np.where(nothing, 1.0, out))
        if p == 2:
            return (scaled * a,)
        # g * direction * (|a| / out) ** (p - 1)
        ratio = np.abs(a) / np.where(nothing, 1.0, out)
        zero = ratio == 0
        weight = np.where(zero, 0.0, np.power(np.where(zero, 1.0, ratio), p - 1.0))
        return (np.where(nothing, 0.0, g) * weight * _direction(a),)


def _norm(a: Array, p: float, dims: tuple[int, ...], keepdim: bool) -> Array:
    if p == 0:
        return np.sum(a != 0, axis=dims, keepdims=keepdim).astype(np.real(a).dtype)
    if p == 2 and a.dtype.kind == "c":
        real, imaginary = np.real(a), np.imag(a)
        return np.sqrt(np.sum(real * real + imaginary * imaginary, axis=dims, keepdims=keepdim))
    if p == 2:
        return np.sqrt(reduced(sum_of_squares_over, a, dims, keepdim))
    if p == 1:
        return reduced(sum_of_sizes_over, a, dims, keepdim)
    size = np.abs(a)
    if abs(p) == math.inf:
        check_choice("norm", size, dims)
        extreme = np.max if p > 0 else np.min
        return extreme(size, axis=dims, keepdims=keepdim)
    return _power(np.sum(_power(size, p), axis=dims, keepdims=keepdim), 1.0 / p)


def _power(x: Any, p: float) -> Any:
    """Return ``x ** p`` for x >= 0; infinite without a warning for negative powers of zero."""
    if p > 0:
        return np.power(x, p)
    zero = x == 0
    return np.where(zero, math.inf, np.power(np.where(zero, 1.0, x), p))


def _direction(a: Any) -> Any:
    """Return ``a / |a|``, and 0 for 0: the sign of real numbers."""
    if a.dtype.kind != "c":
        return np.sign(a)
    size = np.abs(a)
    zero = size == 0
    return np.where(zero, 0.0, a / np.where(zero, 1.0, size))
