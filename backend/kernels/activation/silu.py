"""SiLU, ``x * sigmoid(x)``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = ["silu_backward", "silu_forward"]

_FUSED = "shardwise.backend.kernels.activation.silu_cpu"


def _silu_forward(x: Array) -> Array:
    """``x * sigmoid(x)``, elementwise; -0 at ``-inf``, its limit.

    Parameters
    ----------
    x : floating array, any shape

    Returns
    -------
    array
        Of `x`'s shape and dtype.

    References
    ----------
    S. Elfwing, E. Uchibe, K. Doya, "Sigmoid-weighted linear units", arXiv:1702.03118.
    """
    e = np.exp(-np.abs(x))
    # Far below 0 exp is 0 anyway, and -inf * 0 would be NaN.
    y: Array = np.maximum(x, -1000.0) * (np.where(x < 0, e, 1.0) / (1.0 + e))
    return y


def _silu_backward(g: Array, x: Array) -> Array:
    """The gradient of :func:`silu_forward` at `x`, times `g` (both of one shape)."""
    # Beyond the cut the slope is 0 or 1 in double precision; at infinity inf * 0 would make it NaN.
    cut = np.clip(x, -45.0, 45.0)
    e = np.exp(-cut)
    s = 1.0 / (1.0 + e)
    dx: Array = g * (s * (1.0 + cut * (e * s)))  # e * s is 1 - s, without its cancellation
    return dx


silu_forward = pointwise_kernel(_silu_forward, f"{_FUSED}:silu_forward", arrays=1)
silu_backward = pointwise_kernel(_silu_backward, f"{_FUSED}:silu_backward", arrays=2)
