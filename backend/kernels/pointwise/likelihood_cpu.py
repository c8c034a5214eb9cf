"""Fused log-likelihoods for NumPy arrays, one element each; the formulas are in ``likelihood.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise
from shardwise.backend.kernels.scalar.exponential_cpu import log1p_of_unit, sigmoid
from shardwise.backend.kernels.scalar.math_cpu import exp_of_negative

__all__ = [
    "binary_cross_entropy_backward", "logistic_loss_backward", "logistic_loss_forward", "negative_product",
]  # fmt: skip


@pointwise
def binary_cross_entropy_backward(g: float, x: float, target: float) -> float:
    real = type(x)
    width = (real(1) - x) * x
    width = real(1e-12) if width < real(1e-12) else width
    return g * (x - target) / width


@pointwise
def logistic_loss_forward(x: float, target: float) -> float:
    real = type(x)
    return (x if x > 0.0 else real(0)) - x * target + log1p_of_unit(exp_of_negative(-abs(x)))


@pointwise
def logistic_loss_backward(g: float, x: float, target: float) -> float:
    return g * (sigmoid(x) - target)


@pointwise
def negative_product(g: float, x: float) -> float:
    return -g * x
