"""The parts of complex numbers, their size and direction; of real numbers, what these come to.

A real loss of a complex ``z`` has the gradient ``dL/dRe(z) + i dL/dIm(z)``, as in PyTorch.
"""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj

__all__ = ["Abs", "Angle", "Conj", "Fabs", "Imag", "Real", "Sgn"]


class Real(Function):
    """The real part: of complex numbers a view."""

    signature = "*"
    linear = "all"
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.real(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (g,)


class Imag(Function):
    """The imaginary part: of complex numbers a view, of real ones zeros."""

    signature = "*"
    linear = "all"
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.is_complex = a.dtype.kind == "c"
        return np.imag(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (1j * g if ctx.is_complex else np.zeros_like(g),)


class Conj(Function):
    """The complex conjugate."""

    signature = "*"
    linear = "all"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.conjugate(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (conj(g),)


class Abs(Function):
    """The absolute value; the gradient is 0 at 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.abs(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (Sgn.apply(a) if a.dtype.kind == "c" else np.sign(a)),)


class Fabs(Function):
    """The absolute value in floating point; integers become float64."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.fabs(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.sign(a),)


class Sgn(Function):
    """``a / |a|``, the direction of a complex number, and 0 at 0; of a real one its sign."""

    signature = "*"
    monotone = 1

    @staticmethod
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")  # infinity over infinity
    def forward(ctx: Context, a: Array) -> Array:
        if a.dtype.kind != "c":
            return np.sign(a)
        size = np.abs(a)
        out = a / np.where(np.equal(size, 0), 1.0, size)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if g.dtype.kind != "c":
            return (np.zeros_like(g),)
        a, out = ctx.saved
        size = np.abs(a)
        # Only what is at right angles to the number turns it; its share along the number is taken out.
        across = g - np.real(g * conj(out)) * out
        return (across / np.where(np.equal(size, 0), math.inf, size),)


class Angle(Function):
    """The angle of a complex number; of real ones 0, and pi below 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        if a.dtype.kind == "c":
            return np.arctan2(np.imag(a), np.real(a))
        floating = 1.0 * a
        return np.where(np.isnan(a), floating, np.where(a < 0, math.pi, np.zeros_like(floating)))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        if a.dtype.kind != "c":
            return (np.zeros_like(g),)
        size = np.abs(a)
        size = np.where(np.equal(size, 0), math.inf, size)
        return (1j * ((g / size) * (a / size)),)
