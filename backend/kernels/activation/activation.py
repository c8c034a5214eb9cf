"""Pointwise activations: erf, and GELU in its exact and its tanh form."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = ["erf", "gelu_backward", "gelu_forward", "gelu_tanh_backward", "gelu_tanh_forward"]

_SQRT_HALF = math.sqrt(0.5)
_INVERSE_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715
_FUSED = "shardwise.backend.kernels.activation.activation_cpu"
_CUDA = "shardwise.backend.kernels.activation.activation_cuda"


def _erf(x: Array) -> Array:
    """The error function of `x`, elementwise; see :func:`shardwise.backend.special.erf`."""
    return special.erf(x)


def _gelu_forward(x: Array) -> Array:
    """``x * Phi(x)``, with Phi the normal distribution function.

    Parameters
    ----------
    x : floating array, any shape

    Returns
    -------
    array
        Of `x`'s shape and dtype.

    References
    ----------
    D. Hendrycks, K. Gimpel, "Gaussian error linear units", arXiv:1606.08415.
    """
    return 0.5 * x * (1.0 + special.erf(x * _SQRT_HALF))


def _gelu_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`gelu_forward` at `x`, times `g` (both of one shape)."""
    # x * exp(-x*x/2) is 0 at infinity, and inf * 0 would make it NaN: |x| is cut where exp is 0 anyway.
    cut = np.clip(x, -40.0, 40.0)
    density = _INVERSE_SQRT_2PI * np.exp(-0.5 * cut * cut)
    dx: Array = g * (0.5 * (1.0 + special.erf(x * _SQRT_HALF)) + cut * density)
    return dx


def _gelu_tanh_forward(x: Array) -> Array:
    """GELU by its tanh approximation, within 5e-4 of :func:`gelu_forward`."""
    return 0.5 * x * (1.0 + np.tanh(_SQRT_2_OVER_PI * (x + _CUBIC * x * x * x)))


def _gelu_tanh_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`gelu_tanh_forward` at `x`, times `g` (both of one shape)."""
    # Where |x| > 10, tanh is 1 and its slope 0; cutting there keeps inf * 0 and a huge cosh out of it.
    cut = np.clip(x, -10.0, 10.0)
    u = _SQRT_2_OVER_PI * (cut + _CUBIC * cut * cut * cut)
    cosh = np.cosh(u)  # the slope of tanh is 1 / cosh**2, which 1 - tanh**2 would lose to cancellation
    slope = cut / (cosh * cosh) * (_SQRT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * cut * cut))
    dx: Array = 0.5 * g * ((1.0 + np.tanh(u)) + slope)
    return dx


erf = pointwise_kernel(_erf, f"{_FUSED}:erf", arrays=1, cuda=f"{_CUDA}:erf")
gelu_forward = pointwise_kernel(
    _gelu_forward, f"{_FUSED}:gelu_forward", arrays=1, cuda=f"{_CUDA}:gelu_forward"
)
gelu_backward = pointwise_kernel(
    _gelu_backward, f"{_FUSED}:gelu_backward", arrays=2, cuda=f"{_CUDA}:gelu_backward"
)
gelu_tanh_forward = pointwise_kernel(
    _gelu_tanh_forward, f"{_FUSED}:gelu_tanh_forward", arrays=1, cuda=f"{_CUDA}:gelu_tanh_forward"
)
gelu_tanh_backward = pointwise_kernel(
    _gelu_tanh_backward, f"{_FUSED}:gelu_tanh_backward", arrays=2, cuda=f"{_CUDA}:gelu_tanh_backward"
)
