"""Losses that are negative log-likelihoods of numbers, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.likelihood import (
    binary_cross_entropy_backward,
    logistic_loss_backward,
    logistic_loss_forward,
    negative_product,
)
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.elementary import Sigmoid
from shardwise.tensor.ops.smooth import LogSigmoid

__all__ = ["BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "GaussianNll", "KlDivergence", "PoissonNll"]

_LOWEST = -100.0  # of a logarithm in binary cross-entropy, as in PyTorch
_TINY = 1e-44  # its exponential is below _LOWEST in every precision, and above 0 in float32
_LOG_2PI = math.log(2.0 * math.pi)


def _bounded_log(x: Any) -> Any:
    """The logarithm of `x`, at least -100; no warning at 0."""
    return np.maximum(np.log(np.maximum(x, _TINY)), _LOWEST)


def _bounded_log1m(x: Any) -> Any:
    """The logarithm of ``1 - x``, at least -100; no warning at 1."""
    inside = x < 1.0
    return np.where(inside, np.maximum(np.log1p(np.where(inside, -x, 0.0)), _LOWEST), _LOWEST)


class BinaryCrossEntropy(Function):
    """``-(target * log(x) + (1 - target) * log(1 - x))``, with logarithms of at least -100."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array) -> Array:
        ctx.save(x, target)
        return (target - 1.0) * _bounded_log1m(x) - target * _bounded_log(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        dx = dtarget = None
        if ctx.need[0]:
            dx = binary_cross_entropy_backward(g, x, target)
        if ctx.need[1]:
            dtarget = g * (_bounded_log(1.0 - x) - _bounded_log(x))
        return dx, dtarget


class BinaryCrossEntropyWithLogits(Function):
    """`BinaryCrossEntropy` of ``sigmoid(x)``, where ``log(x)`` counts `pos_weight` times, if it is given."""

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, pos_weight: Array | None) -> Array:
        ctx.save(x, target, pos_weight)
        if pos_weight is None:
            return logistic_loss_forward(x, target)
        soft = np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0.0)
        return (1.0 - target) * x + (1.0 + (pos_weight - 1.0) * target) * soft

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target, pos_weight = ctx.saved
        if pos_weight is None:
            dx = logistic_loss_backward(g, x, target) if ctx.need[0] else None
            return dx, -g * x if ctx.need[1] else None, None
        dx = dtarget = dweight = None
        if ctx.need[0]:
            dx = g * (1.0 - target - (1.0 + (pos_weight - 1.0) * target) * Sigmoid.apply(-x))
        if ctx.need[1] or ctx.need[2]:
            soft = -LogSigmoid.apply(x)
            dtarget = g * ((pos_weight - 1.0) * soft - x) if ctx.need[1] else None
            dweight = g * target * soft if ctx.need[2] else None
        return dx, dtarget, dweight


class KlDivergence(Function):
    """``t * (log(t) - x)`` with ``t = target``, or ``exp(target)`` if `log_target`; 0 where `t` is 0.

    Where `t` is 0, the slope that is infinite is left out of the gradient of `target`.
    """

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, log_target: bool) -> Array:
        ctx.log_target = log_target
        ctx.save(x, target)
        if log_target:
            return np.exp(target) * (target - x)
        return target * _log_or_zero(target) - target * x

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        t = np.exp(target) if ctx.log_target else target
        dx = negative_product(g, t) if ctx.need[0] else None
        if not ctx.need[1]:
            return dx, None
        if ctx.log_target:
            return dx, g * t * (target - x + 1.0)
        return dx, g * (np.where(target > 0.0, _log_or_zero(target) + 1.0, 0.0) - x)


def _log_or_zero(x: Any) -> Any:
    """The logarithm where `x` is not 0, and 0 there; NaN below 0."""
    return np.log(np.where(x == 0.0, 1.0, x))


class PoissonNll(Function):
    """``exp(x) - target * x``, or ``x - target * log(x + eps)`` unless `log_input`.

    If `full`, with Stirling's approximation of ``log(target!)`` where the target is above 1.
    """

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, log_input: bool, full: bool, eps: float) -> Array:
        ctx.log_input, ctx.full, ctx.eps = log_input, full, eps
        ctx.save(x, target)
        loss = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
        if full:
            many = target > 1.0
            n = np.where(many, target, 1.0)
            loss = loss + np.where(many, n * np.log(n) - n + 0.5 * (np.log(n) + _LOG_2PI), 0.0)
        return loss

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target = ctx.saved
        dx = dtarget = None
        if ctx.need[0]:
            dx = g * (np.exp(x) - target) if ctx.log_input else g * (1.0 - target / (x + ctx.eps))
        if ctx.need[1]:
            slope = -x if ctx.log_input else -np.log(x + ctx.eps)
            if ctx.full:
                many = target > 1.0
                n = np.where(many, target, 1.0)
                slope = slope + np.where(many, np.log(n) + 0.5 / n, 0.0)
            dtarget = g * slope
        return dx, dtarget


class GaussianNll(Function):
    """``(log(v) + (x - target)² / v) / 2`` with ``v = max(var, eps)``.

    Below `eps` the variance gets the gradient of `eps`.
    """

    signature = "*"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, var: Array, eps: float) -> Array:
        ctx.eps = eps
        ctx.save(x, target, var)
        v, d = np.maximum(var, eps), x - target
        return 0.5 * (np.log(v) + d * d / v)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, target, var = ctx.saved
        v, d = np.maximum(var, ctx.eps), x - target
        slope = g * d / v
        return (
            slope if ctx.need[0] else None,
            -slope if ctx.need[1] else None,
            0.5 * g * (1.0 - d * d / v) / v if ctx.need[2] else None,
        )
