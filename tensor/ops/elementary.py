"""Elementary functions of one variable, element by element."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = [
    "Abs", "Cos", "Cosh", "Erf", "Exp", "Log", "Relu", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tanh",
]  # fmt: skip


class Exp(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.exp(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * out,)


class Log(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.log(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g / a,)


class Sqrt(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.sqrt(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g / (2.0 * out),)


class Sin(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.sin(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.cos(a),)


class Cos(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.cos(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (-g * np.sin(a),)


class Sinh(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.sinh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.cosh(a),)


class Cosh(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.cosh(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.sinh(a),)


class Tanh(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = np.tanh(a)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * (1.0 - out * out),)


class Sigmoid(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        out = 0.5 * np.tanh(0.5 * a) + 0.5  # no overflow on either side
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        return (g * out * (1.0 - out),)


class Erf(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return special.erf(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (2.0 / math.sqrt(math.pi)) * np.exp(-a * a),)


class Abs(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.abs(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * np.sign(a),)


class Sign(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        return np.sign(a)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.zeros_like(g),)


class Relu(Function):
    signature = "*"

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        ctx.save(a)
        return np.maximum(a, 0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        return (g * (a > 0),)
