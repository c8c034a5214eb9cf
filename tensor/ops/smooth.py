"""Smooth activations made of exponentials, right for inputs of any size. They save their input alone.

With ``e = exp(-|x|)``, which never overflows, each comes without cancellation on either side of 0.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.silu import silu_backward, silu_forward
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.elementary import Sigmoid

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
        scaled = x * beta
        soft = np.maximum(scaled, 0.0) + np.log1p(np.exp(-np.abs(scaled)))
        return np.where(scaled > threshold, x, soft * (1.0 / beta))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        scaled = x * ctx.beta
        return (np.where(scaled > ctx.threshold, g, g * Sigmoid.apply(scaled)),)


class LogSigmoid(Function):
    """``log(sigmoid(x))``, which nears `x` far below 0 and 0 far above."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (g * Sigmoid.apply(-x),)


class Mish(Function):
    """``x * tanh(softplus(x))`` (Misra 2019); 0 at -inf, as is its slope."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        below = x < 0
        e = np.exp(-np.abs(x))
        # tanh(log(1 + y)) is (y² + 2y) / (y² + 2y + 2); on the right both are divided by y².
        above_part = np.where(below, e * (e + 2.0), 1.0 + 2.0 * e)
        rest = np.where(below, 2.0, 2.0 * e * e)
        return np.maximum(x, -1000.0) * (above_part / (above_part + rest))  # where -inf * 0 would be NaN

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        cut = np.clip(x, -50.0, 50.0)  # beyond, the slope is 0 or 1; at infinity inf * 0 would be NaN
        t = np.tanh(Softplus.apply(cut, beta=1.0, threshold=20.0))
        return (g * (t + cut * (1.0 - t * t) * Sigmoid.apply(cut)),)


class SoftSign(Function):
    """``x / (1 + |x|)``; -1 and 1 at infinity."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        cut = np.clip(x, -1e30, 1e30)  # where the quotient is 1, and inf / inf would be NaN
        return cut / (1.0 + np.abs(cut))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        inverse = 1.0 / (1.0 + np.abs(x))
        return (g * inverse * inverse,)


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
        t = np.tanh(x)
        return (g * (t * t),)
