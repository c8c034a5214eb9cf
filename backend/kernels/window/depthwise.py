"""Convolutions in which an output channel sees one input channel: too thin for matrix products."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.window.convolution import Key, overlaps

__all__ = ["depthwise_forward", "depthwise_input", "depthwise_weight"]

_FUSED = "shardwise.backend.kernels.window.depthwise_cpu"
_CUDA = "shardwise.backend.kernels.window.convolution_cuda"


def _depthwise_forward(
    x: Array, weight: Array, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    """Sum over each window of `x`, weighted by the kernel of each output channel.

    Parameters
    ----------
    x : array, shape (batch, channels, *places)
    weight : array, shape (channels * m, 1, *kernel)
        Output channels ``c * m`` to ``c * m + m - 1`` see channel ``c``.
    size : tuple of int
        Of the result.
    stride, padding, dilation : tuple of int, one per spatial dim
        See :mod:`shardwise.backend.kernels.window.convolution`.

    Returns
    -------
    array, shape (batch, channels * m, *size)
    """
    batch, channels = x.shape[:2]
    kernel, many = weight.shape[2:], weight.shape[0] // max(channels, 1)
    scale = np.reshape(weight, (channels, many, *kernel, *(1,) * len(size)))
    out = np.zeros_like(x, order="C", shape=(batch, channels, many, *size), dtype=np.result_type(x, weight))
    for place, outputs, inputs in overlaps(x.shape[2:], kernel, size, stride, padding, dilation):
        tap: Key = (slice(None), slice(None), *place)
        out[outputs] += np.expand_dims(x[inputs], 2) * scale[tap]
    return np.reshape(out, (batch, channels * many, *size))


def _depthwise_input(
    g: Array, weight: Array, channels: int, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    """The gradient of :func:`depthwise_forward` with respect to `x`.

    Parameters
    ----------
    g : array, shape (batch, channels * m, *out)
    weight : array, shape (channels * m, 1, *kernel)
    channels : int
    size : tuple of int
        Of `x`'s spatial dims.
    stride, padding, dilation : tuple of int, one per spatial dim

    Returns
    -------
    array, shape (batch, channels, *size)
    """
    batch, out = g.shape[0], g.shape[2:]
    kernel, many = weight.shape[2:], weight.shape[0] // max(channels, 1)
    scale = np.reshape(weight, (channels, many, *kernel, *(1,) * len(size)))
    parts = np.reshape(g, (batch, channels, many, *out))
    dx = np.zeros_like(g, order="C", shape=(batch, channels, *size), dtype=np.result_type(g, weight))
    for place, outputs, inputs in overlaps(size, kernel, out, stride, padding, dilation):
        tap: Key = (slice(None), slice(None), *place)
        dx[inputs] += np.sum(parts[outputs] * scale[tap], axis=2)
    return dx


def _depthwise_weight(
    x: Array, g: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    """The gradient of :func:`depthwise_forward` with respect to `weight`.

    Parameters
    ----------
    x : array, shape (batch, channels, *places)
    g : array, shape (batch, channels * m, *out)
    kernel : tuple of int
    stride, padding, dilation : tuple of int, one per spatial dim

    Returns
    -------
    array, shape (channels * m, 1, *kernel)
    """
    batch, channels = x.shape[:2]
    many, out = g.shape[1] // max(channels, 1), g.shape[2:]
    parts = np.reshape(g, (batch, channels, many, *out))
    dweight = np.zeros_like(g, order="C", shape=(channels, many, *kernel), dtype=np.result_type(x, g))
    reduced = (0, *range(3, 3 + len(kernel)))
    for place, outputs, inputs in overlaps(x.shape[2:], kernel, out, stride, padding, dilation):
        tap: Key = (slice(None), slice(None), *place)
        dweight[tap] = np.sum(parts[outputs] * np.expand_dims(x[inputs], 2), axis=reduced)
    return np.reshape(dweight, (channels * many, 1, *kernel))


depthwise_forward = Kernel(
    _depthwise_forward, f"{_FUSED}:depthwise_forward", arrays=2, cuda=f"{_CUDA}:depthwise_forward"
)
depthwise_input = Kernel(
    _depthwise_input, f"{_FUSED}:depthwise_input", arrays=2, cuda=f"{_CUDA}:depthwise_input"
)
depthwise_weight = Kernel(
    _depthwise_weight, f"{_FUSED}:depthwise_weight", arrays=2, cuda=f"{_CUDA}:depthwise_weight"
)
