"""Normalisation of each channel over the batch and all places."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["batch_norm_backward", "batch_norm_forward", "per_channel"]

_FUSED = "shardwise.backend.kernels.channel.batch_norm_cpu"
_CUDA = "shardwise.backend.kernels.channel.planes_cuda"


def per_channel(values: Array, ndim: int) -> Array:
    """One number per channel, in a shape that broadcasts over (batch, channels, ...) of `ndim` dims."""
    return np.reshape(values, (-1, *(1,) * (ndim - 2)))


def _batch_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalise each channel of `x` to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    x : floating array, shape (batch, channels, ...), not empty
    weight, bias : array of shape (channels,), or None for 1 and 0
    eps : float
        Added to the variance.

    Returns
    -------
    y : array of `x`'s shape and dtype
    mean, variance : arrays of shape (channels,)
        The variance is the mean of squares, not corrected.

    References
    ----------
    S. Ioffe, C. Szegedy, "Batch normalization", arXiv:1502.03167.
    """
    axes = (0, *range(2, x.ndim))
    mean = np.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    y = centred * (1.0 / np.sqrt(variance + eps))
    if weight is not None:
        y = y * per_channel(weight, x.ndim)
    if bias is not None:
        y = y + per_channel(bias, x.ndim)
    return y, np.reshape(mean, (x.shape[1],)), np.reshape(variance, (x.shape[1],))


def _batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array | None, variance: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """The gradients of :func:`batch_norm_forward`.

    Parameters
    ----------
    g, x : floating arrays, shape (batch, channels, ...)
        The output's gradient, and the forward's input.
    weight : array of shape (channels,), or None
    mean, variance : arrays of shape (channels,), or None
        From the forward. If either is None both are computed from `x` again, so that gradients of this
        gradient see how they depend on it.
    eps : float
        As in the forward.

    Returns
    -------
    dx : array of `x`'s shape
    dweight, dbias : arrays of shape (channels,)
    """
    axes, channels = (0, *range(2, x.ndim)), x.shape[1]
    if mean is None or variance is None:
        centred = x - np.mean(x, axis=axes, keepdims=True)
        wide = np.mean(centred * centred, axis=axes, keepdims=True)
    else:
        centred = x - per_channel(mean, x.ndim)
        wide = per_channel(variance, x.ndim)
    scale = 1.0 / np.sqrt(wide + eps)
    normal = centred * scale
    dbias = np.sum(g, axis=axes, keepdims=True)
    dweight = np.sum(g * normal, axis=axes, keepdims=True)
    share = channels / math.prod(x.shape)
    factor = scale if weight is None else scale * per_channel(weight, x.ndim)
    dx = (g - dbias * share - normal * (dweight * share)) * factor
    return dx, np.reshape(dweight, (channels,)), np.reshape(dbias, (channels,))


batch_norm_forward = Kernel(
    _batch_norm_forward,
    f"{_FUSED}:batch_norm_forward",
    arrays=3,
    statistics=2,
    cuda=f"{_CUDA}:batch_norm_forward",
)
batch_norm_backward = Kernel(
    _batch_norm_backward, f"{_FUSED}:batch_norm_backward", arrays=5, cuda=f"{_CUDA}:batch_norm_backward"
)
