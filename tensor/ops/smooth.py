"""Smooth activations made of exponentials, right for inputs of any size. They save their input alone."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.silu import silu_backward, silu_forward
from shardwise.backend.kernels.activation.smooth import (
    log_sigmoid_backward,
    log_sigmoid_forward,
    mish_backward,
    mish_forward,
    soft_sign_backward,
    soft_sign_forward,
    softplus_backward,
    softplus_forward,
    tanh_shrink_backward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["LogSigmoid", "Mish", "Silu", "SoftSign", "Softplus", "TanhShrink"]


class Silu(Function):
    """``x * sigmoid(x)``, also called swish (Elfwing et al. 2017); 0 at -inf, as is its slope."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return silu_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (silu_backward(g, x),)


class Softplus(Function):
    """``log(1 + exp(beta * x)) / beta``, and `x` itself where ``beta * x`` is above `threshold`."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, beta: float, threshold: float) -> Array:
        ctx.beta, ctx.threshold = beta, threshold
        ctx.save(x)
        return softplus_forward(x, beta, threshold)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (softplus_backward(g, x, ctx.beta, ctx.threshold),)


class LogSigmoid(Function):
    """``log(sigmoid(x))``, which nears `x` far below 0 and 0 far above."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return log_sigmoid_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (log_sigmoid_backward(g, x),)


class Mish(Function):
    """``x * tanh(softplus(x))`` (Misra 2019); 0 at -inf, as is its slope."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return mish_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (mish_backward(g, x),)


class SoftSign(Function):
    """``x / (1 + |x|)``; -1 and 1 at infinity."""

    signature = "*"
    monotone = 1

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return soft_sign_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (soft_sign_backward(g, x),)


class TanhShrink(Function):
    """``x - tanh(x)``."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return x - np.tanh(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (tanh_shrink_backward(g, x),)
