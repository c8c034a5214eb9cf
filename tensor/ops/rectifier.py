"""Activations that treat negative and positive inputs differently. They save their input alone."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.rectifier import (
    elu_backward,
    elu_forward,
    leaky_relu_backward,
    leaky_relu_forward,
    prelu_backward,
    prelu_forward,
    prelu_weight,
    threshold_backward,
    threshold_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Elu", "LeakyRelu", "PRelu", "Threshold"]


class LeakyRelu(Function):
    """``x`` where it is positive, ``slope * x`` elsewhere; the slope at 0 is `slope`."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, slope: float) -> Array:
        ctx.slope = slope
        ctx.save(x)
        return leaky_relu_forward(x, slope)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (leaky_relu_backward(g, x, ctx.slope),)


class PRelu(Function):
    """``x`` where it is positive, ``weight * x`` elsewhere (He et al. 2015); the slope at 0 is the weight."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array) -> Array:
        ctx.save(x, weight)
        return prelu_forward(x, weight)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight = ctx.saved
        dx = prelu_backward(g, x, weight) if ctx.need[0] else None
        return dx, prelu_weight(g, x) if ctx.need[1] else None


class Elu(Function):
    """``scale * x`` where `x` is positive, ``scale * alpha * (exp(rate * x) - 1)`` elsewhere.

    ELU (Clevert et al. 2016), SELU (Klambauer et al. 2017) and CELU (Barron 2017) by their
    constants. The slope at 0 is that of the exponential.
    """

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, alpha: float, scale: float, rate: float) -> Array:
        ctx.alpha, ctx.scale, ctx.rate = alpha, scale, rate
        ctx.save(x)
        return elu_forward(x, alpha, scale, rate)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (elu_backward(g, x, ctx.alpha, ctx.scale, ctx.rate),)


class Threshold(Function):
    """``x`` where it is above `threshold`, else `value`; the slope at the threshold is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, threshold: float, value: float) -> Array:
        ctx.threshold = threshold
        ctx.save(x)
        return threshold_forward(x, threshold, value)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (threshold_backward(g, x, ctx.threshold),)
