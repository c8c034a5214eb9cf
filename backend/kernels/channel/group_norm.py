"""Normalisation of each sample over groups of channels and all places."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.channel.batch_norm import per_channel
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["group_norm_backward", "group_norm_forward"]

_FUSED = "shardwise.backend.kernels.channel.group_norm_cpu"
_CUDA = "shardwise.backend.kernels.channel.planes_cuda"


def _group_norm_forward(
    x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float
) -> tuple[Array, Array, Array]:
    """Normalise each group of channels of each sample to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    x : floating array, shape (batch, channels, ...), none but the batch empty
    weight, bias : array of shape (channels,), or None for 1 and 0
    groups : int
        Divides channels.
    eps : float
        Added to the variance.

    Returns
    -------
    y : array of `x`'s shape and dtype
    mean, variance : arrays of shape (batch, groups)
        The variance is the mean of squares, not corrected.

    References
    ----------
    Y. Wu, K. He, "Group normalization", arXiv:1803.08494.
    """
    rows = _rows(x, groups)
    mean = np.mean(rows, axis=2, keepdims=True)
    centred = rows - mean
    variance = np.mean(centred * centred, axis=2, keepdims=True)
    y = np.reshape(centred * (1.0 / np.sqrt(variance + eps)), x.shape)
    if weight is not None:
        y = y * per_channel(weight, x.ndim)
    if bias is not None:
        y = y + per_channel(bias, x.ndim)
    return y, np.squeeze(mean, axis=2), np.squeeze(variance, axis=2)


def _group_norm_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    mean: Array | None,
    variance: Array | None,
    groups: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    """The gradients of :func:`group_norm_forward`.

    Parameters
    ----------
    g, x : floating arrays, shape (batch, channels, ...)
        The output's gradient, and the forward's input.
    weight : array of shape (channels,), or None
    mean, variance : arrays of shape (batch, groups), or None
        From the forward. If either is None both are computed from `x` again, so that gradients of this
        gradient see how they depend on it.
    groups, eps
        As in the forward.

    Returns
    -------
    dx : array of `x`'s shape
    dweight, dbias : arrays of shape (channels,)
    """
    rows = _rows(x, groups)
    if mean is None or variance is None:
        centred = rows - np.mean(rows, axis=2, keepdims=True)
        wide = np.mean(centred * centred, axis=2, keepdims=True)
    else:
        centred = rows - np.expand_dims(mean, 2)
        wide = np.expand_dims(variance, 2)
    scale = 1.0 / np.sqrt(wide + eps)
    normal = centred * scale
    weighted = _rows(g if weight is None else g * per_channel(weight, x.ndim), groups)
    inner = np.mean(weighted * normal, axis=2, keepdims=True)
    dx = (weighted - np.mean(weighted, axis=2, keepdims=True) - normal * inner) * scale
    axes = (0, *range(2, x.ndim))
    dweight = np.sum(g * np.reshape(normal, x.shape), axis=axes)
    return np.reshape(dx, x.shape), dweight, np.sum(g, axis=axes)


def _rows(x: Array, groups: int) -> Array:
    """A row for each group of each sample."""
    return np.reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // max(groups, 1)))


group_norm_forward = Kernel(
    _group_norm_forward,
    f"{_FUSED}:group_norm_forward",
    arrays=3,
    statistics=2,
    cuda=f"{_CUDA}:group_norm_forward",
)
group_norm_backward = Kernel(
    _group_norm_backward, f"{_FUSED}:group_norm_backward", arrays=5, cuda=f"{_CUDA}:group_norm_backward"
)
