"""Activations that treat negative and positive inputs differently. They save their input alone."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Elu", "LeakyRelu", "PRelu", "Threshold"]


class LeakyRelu(Function):
    """``x`` where it is positive, ``slope * x`` elsewhere; the slope at 0 is `slope`."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, slope: float) -> Array:
        ctx.slope = slope
        ctx.save(x)
        return np.where(x > 0, x, x * slope)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where(x > 0, g, g * ctx.slope),)


class PRelu(Function):
    """``x`` where it is positive, ``weight * x`` elsewhere (He et al. 2015); the slope at 0 is the weight."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array) -> Array:
        ctx.save(x, weight)
        return np.where(x > 0, x, weight * x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight = ctx.saved
        dx = np.where(x > 0, g, weight * g) if ctx.need[0] else None
        return dx, np.where(x > 0, 0.0, x * g) if ctx.need[1] else None


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
        return np.where(x > 0, scale * x, (alpha * scale) * np.expm1(rate * np.minimum(x, 0.0)))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        above = x > 0
        # Cut by where, not by minimum, whose own gradient is half at 0.
        slope = (ctx.alpha * ctx.scale * ctx.rate) * np.exp(ctx.rate * np.where(above, 0.0, x))
        return (g * np.where(above, ctx.scale, slope),)


class Threshold(Function):
    """``x`` where it is above `threshold`, else `value`; the slope at the threshold is 0."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, threshold: float, value: float) -> Array:
        ctx.threshold = threshold
        ctx.save(x)
        return np.where(x <= threshold, value, x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (np.where(x <= ctx.threshold, 0.0, g),)
