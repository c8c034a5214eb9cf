"""Convolutions as matrix products, block by block, so that memory stays bounded however large the input.

What networks call a convolution is a correlation: ``out[o]`` is the sum over kernel places ``k`` of
``x[o * stride + k * dilation - padding] * weight[k]``, with zeros outside `x`. Here are the correlation,
and its gradients with respect to the one and the other array. Each is linear in both of its arrays, and
the gradients of each are the other two. `padding` is that in front; how far it reaches behind follows
from the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.window.convolution import add_windows_, take_windows_
from shardwise.backend.kernels.window.depthwise import depthwise_forward, depthwise_input, depthwise_weight
from shardwise.backend.kernels.window.direct import direct_forward, direct_weight, fits_direct
from shardwise.backend.product import matmul
from shardwise.backend.select import backend_of

__all__ = ["correlate", "correlate_input", "correlate_weight"]

# Bytes of windows that are laid out at a time: on the CPU about what the second cache holds.
_BLOCK_BYTES = {"cpu": 1 << 21, "cuda": 1 << 28}
# Products of fewer columns than this are too narrow to be fast: images are put side by side.
_COLUMNS = 256
# Up to so many outputs per group of one channel, adding up rows is faster than a product.
_DEPTHWISE = 8


def correlate(
    x: Array, weight: Array, size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Correlate `x` with `weight`.

    Parameters
    ----------
    x : array, shape (batch, channels, *places)
    weight : array, shape (outputs, channels / groups, *kernel)
    size : tuple of int
        Of the result's spatial dims.
    stride, padding, dilation : tuple of int, one per spatial dim
    groups : int

    Returns
    -------
    array, shape (batch, outputs, *size)
    """
    if _is_depthwise(weight.shape[0], weight.shape[1], groups):
        return depthwise_forward(x, weight, size, stride, padding, dilation)
    window = math.prod(weight.shape[1:])
    if fits_direct(x, weight, weight.shape[0], window, size, stride, padding, dilation, groups):
        return direct_forward(x, weight, size, padding)
    batch, outputs = x.shape[0], weight.shape[0]
    windows = _Windows(groups, x.shape[1:], weight.shape[2:], size, stride, padding, dilation)
    matrix = _matrix(weight, groups)
    out = np.empty_like(x, order="C", shape=(batch, outputs, *size), dtype=np.result_type(x, weight))
    flat = np.reshape(out, (batch, groups, outputs // groups, math.prod(size)))
    for block in windows.blocks(out, batch):
        columns = windows.take(x, block)
        if block.many == 1:
            matmul(matrix, columns, out=flat[block.first, :, :, block.places])
        else:
            product = np.reshape(matmul(matrix, columns), (outputs, block.many, *size))
            out[block.images] = np.swapaxes(product, 0, 1)
    return out


def correlate_input(
    g: Array, weight: Array, size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """The gradient of :func:`correlate` with respect to `x`: the transposed convolution.

    Parameters
    ----------
    g : array, shape (batch, outputs, *out)
    weight : array, shape (outputs, channels / groups, *kernel)
    size : tuple of int
        Of `x`'s spatial dims.
    stride, padding, dilation, groups
        Of the correlation.

    Returns
    -------
    array, shape (batch, channels, *size)
    """
    if _is_depthwise(weight.shape[0], weight.shape[1], groups):
        return depthwise_input(g, weight, groups, size, stride, padding, dilation)
    kernel = weight.shape[2:]
    behind = tuple([n - 1 - p for n, p in zip(kernel, padding, strict=True)])
    window = weight.shape[0] * math.prod(kernel)
    if fits_direct(g, weight, weight.shape[1], window, size, stride, behind, dilation, groups):
        turned = np.swapaxes(np.flip(weight, axis=(2, 3)), 0, 1)
        return direct_forward(g, turned, size, behind)
    channels = weight.shape[1] * groups
    windows = _Windows(groups, (channels, *size), weight.shape[2:], g.shape[2:], stride, padding, dilation)
    matrix = np.swapaxes(_matrix(weight, groups), 1, 2)
    dx = np.zeros_like(g, order="C", shape=(g.shape[0], channels, *size), dtype=np.result_type(g, weight))
    for block in windows.blocks(dx, g.shape[0]):
        windows.add(dx, block, matrix, _side_by_side(g, block, groups))
    return dx


def correlate_weight(
    x: Array, g: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """The gradient of :func:`correlate` with respect to `weight`.

    Parameters
    ----------
    x : array, shape (batch, channels, *places)
    g : array, shape (batch, outputs, *out)
    kernel : tuple of int
        Of `weight`'s spatial dims.
    stride, padding, dilation, groups
        Of the correlation.

    Returns
    -------
    array, shape (outputs, channels / groups, *kernel)
    """
    channels, outputs = x.shape[1], g.shape[1]
    if _is_depthwise(outputs, channels // groups, groups):
        return depthwise_weight(x, g, kernel, stride, padding, dilation)
    window = channels * math.prod(kernel)
    if fits_direct(x, g, outputs, window, g.shape[2:], stride, padding, dilation, groups):
        return direct_weight(x, g, kernel, padding)
    windows = _Windows(groups, x.shape[1:], kernel, g.shape[2:], stride, padding, dilation)
    rows = channels // groups * math.prod(kernel)
    total = np.zeros_like(g, order="C", shape=(groups, outputs // groups, rows), dtype=np.result_type(x, g))
    for block in windows.blocks(x, x.shape[0]):
        total += matmul(_side_by_side(g, block, groups), np.swapaxes(windows.take(x, block), 1, 2))
    return np.reshape(total, (outputs, channels // groups, *kernel))


def _is_depthwise(outputs: int, channels: int, groups: int) -> bool:
    return channels == 1 and outputs <= groups * _DEPTHWISE


def _matrix(weight: Array, groups: int) -> Array:
    """Weights as one matrix per group, shape (groups, outputs / groups, channels / groups * taps)."""
    outputs, channels, *kernel = weight.shape
    return np.reshape(weight, (groups, outputs // groups, channels * math.prod(kernel)))


class _Block(NamedTuple):
    """Some images with all of their output places, or one with some of them."""

    first: int
    many: int  # images
    images: slice
    places: slice  # counted over all spatial dims
    size: Shape  # spatial, of these places
    padding: Shape  # in front of these places


def _side_by_side(g: Array, block: _Block, groups: int) -> Array:
    """What a block has of the outputs, shape (groups, outputs / groups, count * places)."""
    batch, outputs, *size = g.shape
    per_group = outputs // groups
    if block.many == 1:
        flat = np.reshape(g, (batch, groups, per_group, math.prod(size)))
        return flat[block.first, :, :, block.places]
    return np.reshape(np.swapaxes(g[block.images], 0, 1), (groups, per_group, block.many * math.prod(size)))


class _Windows:
    """How a correlation looks at its input, and the memory in which it lays out what it sees."""

    def __init__(
        self,
        groups: int,
        image: Shape,
        kernel: Shape,
        out: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
    ) -> None:
        self._groups, self._kernel, self._out = groups, kernel, out
        self._channels = image[0]
        self._stride, self._padding, self._dilation = stride, padding, dilation
        ones = (1,) * len(out)
        self._pointwise = kernel == stride == ones and out == image[1:] and not any(padding)
        self._rows = image[0] * math.prod(kernel)
        self._memory: Array | None = None

    def blocks(self, like: Array, batch: int) -> Iterator[_Block]:
        """Cut `batch` images into blocks whose windows take a bounded number of bytes."""
        places = math.prod(self._out)
        if not places:
            return
        count, length = self._lengths(like, batch, places)
        across = places // self._out[0]
        for first in range(0, batch, count):
            many = min(count, batch - first)
            for start in range(0, self._out[0], length):
                size = (min(length, self._out[0] - start), *self._out[1:])
                padding = (self._padding[0] - start * self._stride[0], *self._padding[1:])
                flat = slice(start * across, (start + size[0]) * across)
                yield _Block(first, many, slice(first, first + many), flat, size, padding)

    def _lengths(self, like: Array, batch: int, places: int) -> tuple[int, int]:
        """Images per block, and places along the first spatial dim."""
        kind, length = backend_of(like).name, self._out[0]
        if kind not in _BLOCK_BYTES:
            return max(batch, 1), length
        room = max(1, _BLOCK_BYTES[kind] // max(1, self._rows * like.dtype.itemsize))
        if room < places:
            most = max(1, room * length // places)
            return 1, length if self._pointwise else -(-length // -(-length // most))  # as good as even
        enough = -(-_COLUMNS // places) if kind == "cpu" else batch
        return max(1, min(batch, enough, room // places)), length

    def take(self, x: Array, block: _Block) -> Array:
        """What a block sees of `x`, shape (groups, channels / groups * taps, count * places)."""
        rows, across = self._rows // self._groups, block.many * math.prod(block.size)
        if self._pointwise:
            images = x[block.images]
            turned = images if block.many == 1 else np.swapaxes(images, 0, 1)
            return np.reshape(turned, (self._groups, rows, across))
        columns = self._room(x, block)
        take_windows_(columns, x[block.images], self._stride, block.padding, self._dilation)
        return np.reshape(columns, (self._groups, rows, across))

    def add(self, dx: Array, block: _Block, matrix: Array, outputs: Array) -> None:
        """Add the product of `matrix` and `outputs` to the places of `dx` that a block sees."""
        columns = self._room(dx, block)
        rows, across = self._rows // self._groups, block.many * math.prod(block.size)
        matmul(matrix, outputs, out=np.reshape(columns, (self._groups, rows, across)))
        add_windows_(dx[block.images], columns, self._stride, block.padding, self._dilation)

    def _room(self, like: Array, block: _Block) -> Array:
        """Memory for a block's windows, shape (channels, *kernel, count, *places)."""
        needed = self._rows * block.many * math.prod(block.size)
        if self._memory is None:  # the first block is the largest
            self._memory = np.empty_like(like, shape=(needed,))
        return np.reshape(self._memory[:needed], (self._channels, *self._kernel, block.many, *block.size))
