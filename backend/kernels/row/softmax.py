"""Softmax and its logarithm over the last dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["log_softmax_backward", "log_softmax_forward", "softmax_backward", "softmax_forward"]

_FUSED = "shardwise.backend.kernels.row.softmax_cpu"
_CUDA = "shardwise.backend.kernels.row.softmax_cuda"


def _softmax_forward(x: Array) -> Array:
    """Each row's exponentials over their sum.

    Parameters
    ----------
    x : floating array, shape (..., classes)
        ``-inf`` gives probability 0; a row with NaN, with ``+inf``, or of ``-inf`` alone gives NaN.

    Returns
    -------
    array
        Of `x`'s shape and dtype.
    """
    if x.shape[-1] == 0:
        return np.zeros_like(x)
    e = np.exp(x - np.amax(x, axis=-1, keepdims=True))
    y: Array = e / np.sum(e, axis=-1, keepdims=True)
    return y


def _softmax_backward(g: Array, y: Array) -> Array:
    """The gradient of :func:`softmax_forward`, from its output `y`."""
    dx: Array = y * (g - np.sum(g * y, axis=-1, keepdims=True))
    return dx


def _log_softmax_forward(x: Array) -> Array:
    """The logarithm of :func:`softmax_forward`, without its underflow.

    Parameters
    ----------
    x : floating array, shape (..., classes)

    Returns
    -------
    array
        Of `x`'s shape and dtype.
    """
    if x.shape[-1] == 0:
        return np.zeros_like(x)
    shifted = x - np.amax(x, axis=-1, keepdims=True)
    y: Array = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return y


def _log_softmax_backward(g: Array, y: Array) -> Array:
    """The gradient of :func:`log_softmax_forward`, from its output `y`."""
    dx: Array = g - np.exp(y) * np.sum(g, axis=-1, keepdims=True)
    return dx


softmax_forward = Kernel(
    _softmax_forward, f"{_FUSED}:softmax_forward", arrays=1, cuda=f"{_CUDA}:softmax_forward"
)
softmax_backward = Kernel(
    _softmax_backward, f"{_FUSED}:softmax_backward", arrays=2, cuda=f"{_CUDA}:softmax_backward"
)
log_softmax_forward = Kernel(
    _log_softmax_forward, f"{_FUSED}:log_softmax_forward", arrays=1, cuda=f"{_CUDA}:log_softmax_forward"
)
log_softmax_backward = Kernel(
    _log_softmax_backward, f"{_FUSED}:log_softmax_backward", arrays=2, cuda=f"{_CUDA}:log_softmax_backward"
)
