"""Exponentials, logarithms and what is made of them, element by element.

Gradients of holomorphic functions take the conjugate of the derivative (PyTorch's convention): a real
loss of a complex number ``z`` has the gradient ``dL/dRe(z) + i dL/dIm(z)``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.rectifier import relu_forward, threshold_backward
from shardwise.backend.kernels.activation.smooth import sigmoid_backward, sigmoid_forward
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.scalar import weak

__all__ = [
    "Exp", "Exp2", "Expm1", "Log", "Log1p", "Log2", "Log10", "LogAddExp", "LogAddExp2", "Logit", "Relu",
    "Sigmoid", "XLog1pY", "XLogY",
]  # fmt: skip

_LN2, _LN10 = math.log(2.0), math.log(10.0)

# inf - inf and log(0) are met on the way to a result that is right; NumPy would warn of them.
_quiet = np.errstate(divide="ignore", invalid="ignore", over="ignore")


class Exp(Function):
    signature = "*"
    monotone = 1
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.exp(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * conj(out),)


class Exp2(Function):
    signature = "*"
    monotone = 1
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.exp2(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * (_LN2 * conj(out)),)


class Expm1(Function):
    signature = "*"
    monotone = 1
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.expm1(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved  # out + 1 would have lost the digits of a small exponential
        return (g * np.exp(conj(a)),)


class Log(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.log(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / conj(a),)


class Log2(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.log2(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / (_LN2 * conj(a)),)


class Log10(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.log10(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / (_LN10 * conj(a)),)


class Log1p(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.log1p(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / (1.0 + conj(a)),)


class LogAddExp(Function):
    """``log(exp(a) + exp(b))``; the gradient is the softmax of the two, half each where they are equal."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.logaddexp(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _shares(ctx, g, _difference(a, b))


class LogAddExp2(Function):
    """``log2(2**a + 2**b)``."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.logaddexp2(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        return _shares(ctx, g, _LN2 * _difference(a, b))


@_quiet
def _difference(a: Array, b: Array) -> Array:
    """``a - b``, and 0 for two equal infinities."""
    return np.where(np.equal(a, b), 0.0, a - b)


def _shares(ctx: Context, g: Array, lead: Array) -> Gradients:
    da = g * Sigmoid.apply(lead) if ctx.need[0] else None
    return da, g * Sigmoid.apply(-lead) if ctx.need[1] else None


class Sigmoid(Function):
    """``1 / (1 + exp(-a))``, exact to the last digits on both sides."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = sigmoid_forward(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (sigmoid_backward(g, conj(out)),)


class Logit(Function):
    """``log(a / (1 - a))``, of `a` kept within ``[eps, 1 - eps]`` if `eps` is given.

    The gradient is zero where `a` was kept, and NaN outside of [0, 1] where it was not.
    """

    signature = "*"
    precision = "wide"

    @staticmethod
    @_quiet
    def forward(ctx: Context, a: Array, eps: float | None = None) -> Array:
        ctx.eps = eps
        ctx.save(a)
        kept = 1.0 * a if eps is None else np.clip(a, eps, 1.0 - eps)
        centred = 2.0 * kept - 1.0  # the quotient rounds to 1 near the middle, where the logarithm is small
        return np.where(
            np.abs(centred) < 0.5, np.log1p(centred) - np.log1p(-centred), np.log(kept / (1.0 - kept))
        )

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        low = 0.0 if ctx.eps is None else ctx.eps
        inside = np.logical_and(a >= low, a <= 1.0 - low)
        return (np.where(inside, g / (a * (1.0 - a)), math.nan if ctx.eps is None else 0.0),)


class XLogY(Function):
    """``a * log(b)``, and 0 where `a` is 0, unless `b` is NaN."""

    signature = "*"
    precision = "wide"

    @staticmethod
    @_quiet
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.where(_nothing(a, b), 0.0, a * weak(np.log, _as_wide(b, a)))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        nothing = _nothing(a, b)
        da = db = None
        outside = np.logical_and(nothing, b <= 0)  # elsewhere a zero is as smooth as any number
        if ctx.need[0]:
            da = np.where(outside, 0.0, g * weak(np.log, _as_wide(b, g)))
        if ctx.need[1]:
            db = np.where(outside, 0.0, g * (a / b))
        return da, db


class XLog1pY(Function):
    """``a * log1p(b)``, and 0 where `a` is 0, unless `b` is NaN."""

    signature = "*"
    precision = "wide"

    @staticmethod
    @_quiet
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        return np.where(_nothing(a, b), 0.0, a * weak(np.log1p, _as_wide(b, a)))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        nothing = _nothing(a, b)
        da = db = None
        outside = np.logical_and(nothing, b <= -1)
        if ctx.need[0]:
            da = np.where(outside, 0.0, g * weak(np.log1p, _as_wide(b, g)))
        if ctx.need[1]:
            db = np.where(outside, 0.0, g * (a / (1.0 + b)))
        return da, db


def _as_wide(x: Any, other: Any) -> Any:
    """Return `x` in the dtype of the result with `other`, so that its logarithm is as exact as the result."""
    if not hasattr(x, "dtype") or not hasattr(other, "dtype"):
        return x
    dtype = np.result_type(x.dtype, other.dtype)
    return x if dtype == x.dtype else x.astype(dtype)


def _nothing(a: Array, b: Array) -> Array:
    return np.logical_and(np.equal(a, 0), np.logical_not(np.isnan(b)))


class Relu(Function):
    """The positive part; the gradient is 0 at 0."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return relu_forward(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (threshold_backward(g, a, 0.0),)
