"""The error function, the gamma function and Bessel functions, element by element."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.activation import erf
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["I0", "I1", "Digamma", "Erf", "Erfc", "Erfinv", "I0e", "I1e", "Lgamma", "Polygamma"]

_SLOPE = 2.0 / math.sqrt(math.pi)  # of erf at 0


class Erf(Function):
    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return erf(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (_SLOPE * np.exp(-a * a)),)


class Erfc(Function):
    """``1 - erf(a)``."""

    signature = "*"
    monotone = -1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.erfc(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (-_SLOPE * np.exp(-a * a)),)


class Erfinv(Function):
    """The inverse of `Erf`; its gradient is infinite at -1 and 1."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = special.erfinv(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * (1.0 / _SLOPE * np.exp(out * out)),)


class Lgamma(Function):
    """The logarithm of the absolute value of the gamma function."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.lgamma(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * special.digamma(a),)


class Digamma(Function):
    """The derivative of `Lgamma`."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.digamma(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * special.polygamma(1, a),)


class Polygamma(Function):
    """The derivative of order `n` of `Digamma`."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, n: int) -> Array:
        ctx.n = n
        ctx.save(a)
        return special.polygamma(n, a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * special.polygamma(ctx.n + 1, a),)


class I0(Function):
    """The modified Bessel function of order 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.i0(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * special.i1(a),)


class I1(Function):
    """The modified Bessel function of order 1."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = special.i1(a)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        return (g * (special.i0(a) - _over(out, a)),)


class I0e(Function):
    """``exp(-|a|) * I0(a)``."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = special.i0e(a)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        return (g * (special.i1e(a) - np.sign(a) * out),)


class I1e(Function):
    """``exp(-|a|) * I1(a)``."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = special.i1e(a)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        return (g * (special.i0e(a) - _over(out, a) - np.sign(a) * out),)


def _over(i1: Array, a: Array) -> Array:
    """``i1 / a``, and its limit 1/2 at 0."""
    zero = np.equal(a, 0)
    return np.where(zero, 0.5, i1 / np.where(zero, 1.0, a))
