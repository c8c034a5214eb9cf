"""Smooth activations made of exponentials, and their gradients, right for inputs of any size.

With ``e = exp(-|x|)``, which never overflows, each comes without cancellation on either side of 0. Formulas
of gradients are differentiated themselves, and go by :func:`shardwise.backend.special.sigmoid` instead, which
has a slope at 0.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = [
    "log_sigmoid_backward", "log_sigmoid_forward", "mish_backward", "mish_forward", "sigmoid_backward",
    "sigmoid_forward", "soft_sign_backward", "soft_sign_forward", "softplus_backward", "softplus_forward",
    "tanh_backward", "tanh_shrink_backward",
]  # fmt: skip

_FUSED = "shardwise.backend.kernels.activation.smooth_cpu"


@np.errstate(over="ignore")  # of exp, where the result is 0
def _sigmoid_forward(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    y: Array = 1.0 / (1.0 + np.exp(-x))
    return y


def _sigmoid_backward(g: Array, y: Array) -> Array:
    """The gradient of :func:`sigmoid_forward`, from its result `y`, times `g`."""
    return g * y * (1.0 - y)


def _tanh_backward(g: Array, y: Array) -> Array:
    """The gradient of the hyperbolic tangent, from its result `y`, times `g`."""
    return g * (1.0 - y * y)


def _tanh_shrink_backward(g: Array, x: Array) -> Array:
    """The gradient of ``x - tanh(x)``, times `g`."""
    t = np.tanh(x)
    return g * (t * t)


def _softplus_forward(x: Array, beta: float, threshold: float) -> Array:
    """``log(1 + exp(beta * x)) / beta``, and `x` itself where ``beta * x`` is above `threshold`."""
    scaled = x * beta
    soft = np.maximum(scaled, 0.0) + np.log1p(np.exp(-np.abs(scaled)))
    return np.where(scaled > threshold, x, soft * (1.0 / beta))


def _softplus_backward(g: Array, x: Array, beta: float, threshold: float) -> Array:
    """The gradient of :func:`softplus_forward` at `x`, times `g`."""
    scaled = x * beta
    return np.where(scaled > threshold, g, g * special.sigmoid(scaled))


def _log_sigmoid_forward(x: Array) -> Array:
    """``log(sigmoid(x))``, which nears `x` far below 0 and 0 far above."""
    return np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x)))


def _log_sigmoid_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`log_sigmoid_forward` at `x`, times `g`."""
    return g * special.sigmoid(-x)


# With s = sigmoid(x) and q = sigmoid(-x), the hyperbolic tangent of softplus(x) is s (1 + q) / (1 + q²).


def _mish_forward(x: Array) -> Array:
    """``x * tanh(softplus(x))``; 0 at -inf."""
    e = np.exp(-np.abs(x))
    r = 1.0 / (1.0 + e)
    below = x < 0.0
    s, q = np.where(below, e * r, r), np.where(below, r, e * r)
    return np.maximum(x, -1000.0) * (s * (1.0 + q) / (1.0 + q * q))  # where -inf * 0 would be NaN


def _mish_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`mish_forward` at `x`, times `g`; 0 at -inf, 1 at inf."""
    cut = np.clip(x, -1000.0, 1000.0)  # beyond, the slope is 0 or 1; at infinity inf * 0 would be NaN
    s, q = special.sigmoid(cut), special.sigmoid(-cut)
    r = 1.0 / (1.0 + q * q)
    return g * (s * r * ((1.0 + q) + 4.0 * cut * q * q * r))


def _soft_sign_forward(x: Array) -> Array:
    """``x / (1 + |x|)``; -1 and 1 at infinity."""
    cut = np.clip(x, -1e30, 1e30)  # where the quotient is 1, and inf / inf would be NaN
    return cut / (1.0 + np.abs(cut))


def _soft_sign_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`soft_sign_forward` at `x`, times `g`."""
    inverse = 1.0 / (1.0 + np.abs(x))
    return g * inverse * inverse


sigmoid_forward = pointwise_kernel(_sigmoid_forward, f"{_FUSED}:sigmoid_forward", arrays=1)
sigmoid_backward = pointwise_kernel(_sigmoid_backward, f"{_FUSED}:sigmoid_backward", arrays=2)
tanh_backward = pointwise_kernel(_tanh_backward, f"{_FUSED}:tanh_backward", arrays=2)
tanh_shrink_backward = pointwise_kernel(_tanh_shrink_backward, f"{_FUSED}:tanh_shrink_backward", arrays=2)
softplus_forward = pointwise_kernel(_softplus_forward, f"{_FUSED}:softplus_forward", arrays=1)
softplus_backward = pointwise_kernel(_softplus_backward, f"{_FUSED}:softplus_backward", arrays=2)
log_sigmoid_forward = pointwise_kernel(_log_sigmoid_forward, f"{_FUSED}:log_sigmoid_forward", arrays=1)
log_sigmoid_backward = pointwise_kernel(_log_sigmoid_backward, f"{_FUSED}:log_sigmoid_backward", arrays=2)
mish_forward = pointwise_kernel(_mish_forward, f"{_FUSED}:mish_forward", arrays=1)
mish_backward = pointwise_kernel(_mish_backward, f"{_FUSED}:mish_backward", arrays=2)
soft_sign_forward = pointwise_kernel(_soft_sign_forward, f"{_FUSED}:soft_sign_forward", arrays=1)
soft_sign_backward = pointwise_kernel(_soft_sign_backward, f"{_FUSED}:soft_sign_backward", arrays=2)
