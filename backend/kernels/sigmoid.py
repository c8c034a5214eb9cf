"""The logistic function and what is made of it: slopes of sigmoid and tanh, and the soft part of softplus."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["sigmoid_backward", "sigmoid_forward", "softplus_backward", "softplus_tail", "tanh_backward"]

_FUSED = "shardwise.backend.kernels.sigmoid_cpu"
_LEAST = 1 << 14


@np.errstate(over="ignore")  # exp overflows where the result is 0
def _sigmoid_forward(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, elementwise, exact to the last digits on both sides.

    Parameters
    ----------
    x : floating or complex array, any shape
    """
    return 1.0 / (1.0 + np.exp(-x))


def _sigmoid_backward(g: Array, y: Array) -> Array:
    """The gradient of :func:`sigmoid_forward`, from its result `y`."""
    dx: Array = g * y * (1.0 - y)
    return dx


def _tanh_backward(g: Array, y: Array) -> Array:
    """The gradient of ``tanh``, from its result `y`."""
    dx: Array = g * (1.0 - y * y)
    return dx


def _softplus_tail(x: Array) -> Array:
    """``log(1 + exp(-|x|))``: what softplus has above the positive part of `x`."""
    return np.log1p(np.exp(-np.abs(x)))


def _softplus_backward(g: Array, x: Array, beta: float, threshold: float) -> Array:
    """``g * sigmoid(beta * x)``, and `g` itself where ``beta * x`` is above `threshold`."""
    scaled = x * beta
    # The quotient is 1 long before its exponential overflows.
    power = np.exp(np.minimum(scaled, min(threshold, 80.0)))
    return np.where(scaled > threshold, g, g * (power / (1.0 + power)))


sigmoid_forward = Kernel(_sigmoid_forward, f"{_FUSED}:sigmoid_forward", arrays=1, least=_LEAST)
sigmoid_backward = Kernel(_sigmoid_backward, f"{_FUSED}:sigmoid_backward", arrays=2, least=_LEAST)
tanh_backward = Kernel(_tanh_backward, f"{_FUSED}:tanh_backward", arrays=2, least=_LEAST)
softplus_tail = Kernel(_softplus_tail, f"{_FUSED}:softplus_tail", arrays=1, least=_LEAST)
softplus_backward = Kernel(_softplus_backward, f"{_FUSED}:softplus_backward", arrays=2, least=_LEAST)
