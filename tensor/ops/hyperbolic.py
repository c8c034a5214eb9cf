"""Hyperbolic functions and their inverses, element by element."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.smooth import tanh_backward
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj

__all__ = ["Arccosh", "Arcsinh", "Arctanh", "Cosh", "Sinh", "Tanh"]


class Sinh(Function):
    signature = "*"
    monotone = 1
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.sinh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.cosh(conj(a)),)


class Cosh(Function):
    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.cosh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.sinh(conj(a)),)


class Tanh(Function):
    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.tanh(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (tanh_backward(g, conj(out)),)


class Arcsinh(Function):
    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arcsinh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        a = conj(a)
        if a.dtype.kind == "c":
            # Subtracted, a real number leaves the sign of an imaginary zero: the side of the cut.
            return (g / np.sqrt(a * a - (-1.0)),)
        return (g / np.hypot(a, 1.0),)


class Arccosh(Function):
    """The inverse hyperbolic cosine; its gradient is infinite at 1, and NaN below."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arccosh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        a = conj(a)
        return (g / (np.sqrt(a - 1.0) * np.sqrt(a - (-1.0))),)  # see Arcsinh


class Arctanh(Function):
    """The inverse hyperbolic tangent; its gradient is infinite at -1 and 1."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.arctanh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        a = conj(a)
        return (g / ((1.0 - a) * (1.0 + a)),)
