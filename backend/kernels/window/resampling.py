"""Weighted sums of a few elements along one dim, and the adjoint, which spreads elements out again."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["resample_backward", "resample_forward"]

_FUSED = "shardwise.backend.kernels.window.resampling_cpu"
_CUDA = "shardwise.backend.kernels.place.scatter_cuda"


def _resample_forward(x: Array, index: Array, weight: Array) -> Array:
    """Add up, for each new place of the middle dim, weighted slices of `x`.

    Parameters
    ----------
    x : array, shape (outer, n, inner)
    index : integer array, shape (taps, m)
        In ``[0, n)``; the caller has made sure.
    weight : array of `x`'s dtype, shape (taps, m)

    Returns
    -------
    array, shape (outer, m, inner)
    """
    taps, m = index.shape
    out: Array = np.take(x, index[0], axis=1) * np.reshape(weight[0], (m, 1))
    for tap in range(1, taps):
        out = out + np.take(x, index[tap], axis=1) * np.reshape(weight[tap], (m, 1))
    return out


def _resample_backward(g: Array, index: Array, weight: Array, size: int) -> Array:
    """The gradient of :func:`resample_forward` with respect to `x`, whose middle dim has `size`.

    Parameters
    ----------
    g : array, shape (outer, m, inner)
    index, weight : arrays, shape (taps, m)
        As in the forward.
    size : int

    Returns
    -------
    array, shape (outer, size, inner)
    """
    taps, m = index.shape
    dx = np.zeros_like(g, order="C", shape=(g.shape[0], size, g.shape[2]))
    for tap in range(taps):
        part = g * np.reshape(weight[tap], (m, 1))
        dx = dx + special.scatter_add((g.shape[0], size, g.shape[2]), (slice(None), index[tap]), part)
    return dx


resample_forward = Kernel(
    _resample_forward,
    f"{_FUSED}:resample_forward",
    arrays=3,
    integer="index",
    cuda=f"{_CUDA}:resample_forward",
)
resample_backward = Kernel(
    _resample_backward,
    f"{_FUSED}:resample_backward",
    arrays=3,
    integer="index",
    cuda=f"{_CUDA}:resample_backward",
)
