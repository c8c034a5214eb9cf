"""Losses that are negative log-likelihoods of numbers, and their gradients, element by element."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = [
    "binary_cross_entropy_backward", "logistic_loss_backward", "logistic_loss_forward", "negative_product",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.pointwise.likelihood_cpu"


def _binary_cross_entropy_backward(g: Array, x: Array, target: Array) -> Array:
    """The gradient of ``-(target * log(x) + (1 - target) * log(1 - x))`` with respect to `x`, times `g`."""
    return g * (x - target) / np.maximum((1.0 - x) * x, 1e-12)


def _logistic_loss_forward(x: Array, target: Array) -> Array:
    """The binary cross-entropy of ``sigmoid(x)``."""
    return np.maximum(x, 0.0) - x * target + np.log1p(np.exp(-np.abs(x)))


def _logistic_loss_backward(g: Array, x: Array, target: Array) -> Array:
    """The gradient of :func:`logistic_loss_forward` with respect to `x`, times `g`."""
    return g * (special.sigmoid(x) - target)


def _negative_product(g: Array, x: Array) -> Array:
    """``-g * x``."""
    return -g * x


binary_cross_entropy_backward = pointwise_kernel(
    _binary_cross_entropy_backward, f"{_FUSED}:binary_cross_entropy_backward", arrays=3
)
logistic_loss_forward = pointwise_kernel(_logistic_loss_forward, f"{_FUSED}:logistic_loss_forward", arrays=2)
logistic_loss_backward = pointwise_kernel(
    _logistic_loss_backward, f"{_FUSED}:logistic_loss_backward", arrays=3
)
negative_product = pointwise_kernel(_negative_product, f"{_FUSED}:negative_product", arrays=2)
