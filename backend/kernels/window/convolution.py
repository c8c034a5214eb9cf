"""The windows of a convolution laid out as a matrix, and the adjoint, which adds up where they overlap.

Everywhere, output place `o` sees through kernel place `k` the input place
``o * stride + k * dilation - padding``, per dim; what lies outside the input is 0. How far the padding
reaches behind the input follows from the sizes, so `padding` is that in front.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["Key", "add_windows_", "overlaps", "take_windows_"]

_FUSED = "shardwise.backend.kernels.window.convolution_cpu"
_CUDA = "shardwise.backend.kernels.window.convolution_cuda"

Key: TypeAlias = tuple[int | slice | EllipsisType, ...]
"""An index of integers and slices."""


def overlaps(
    size: Shape, kernel: Shape, out: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Iterator[tuple[Shape, Key, Key]]:
    """For each place in the kernel, the outputs that see the input through it, and the inputs that they see.

    Parameters
    ----------
    size, kernel, out : tuple of int
        Sizes of input, kernel and output.
    stride, padding, dilation : tuple of int

    Yields
    ------
    place : tuple of int
    outputs, inputs : index
        All of the leading dims, and slices of the same lengths of the spatial ones.
    """
    dims = [
        [_overlap(n, m, k * d - p, s) for k in range(length)]
        for n, length, m, s, p, d in zip(size, kernel, out, stride, padding, dilation, strict=True)
    ]
    for place in itertools.product(*map(range, kernel)):
        pairs = [places[k] for places, k in zip(dims, place, strict=True)]
        yield place, (..., *(pair[0] for pair in pairs)), (..., *(pair[1] for pair in pairs))


def _overlap(size: int, out: int, offset: int, stride: int) -> tuple[slice, slice]:
    """The outputs `o` for which ``o * stride + offset`` is a place of the input, and these places."""
    first = max(0, -(offset // stride))
    count = min(out, (size - 1 - offset) // stride + 1) - first
    if count <= 0:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, first + count), slice(start, start + (count - 1) * stride + 1, stride)


def _take_windows_(columns: Array, x: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    """Write into `columns` what each kernel place sees at each output place.

    Parameters
    ----------
    columns : array, shape (channels, *kernel, batch, *out)
        Written whole.
    x : array, shape (batch, channels, *size)
    stride, padding, dilation : tuple of int, one per spatial dim
    """
    ndim = x.ndim - 2
    kernel, out = columns.shape[1 : 1 + ndim], columns.shape[2 + ndim :]
    channels_first = np.swapaxes(x, 0, 1)
    columns[...] = 0
    for place, outputs, inputs in overlaps(x.shape[2:], kernel, out, stride, padding, dilation):
        tap: Key = (slice(None), *place)
        columns[tap][outputs] = channels_first[inputs]


def _add_windows_(x: Array, columns: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    """Add each element of `columns` to the element of `x` that :func:`take_windows_` takes for it.

    Parameters
    ----------
    x : array, shape (batch, channels, *size)
        Added to.
    columns : array, shape (channels, *kernel, batch, *out)
        Used up: afterwards its values mean nothing.
    stride, padding, dilation : tuple of int, one per spatial dim
    """
    ndim = x.ndim - 2
    kernel, out = columns.shape[1 : 1 + ndim], columns.shape[2 + ndim :]
    channels_first = np.swapaxes(x, 0, 1)
    for place, outputs, inputs in overlaps(x.shape[2:], kernel, out, stride, padding, dilation):
        tap: Key = (slice(None), *place)
        channels_first[inputs] += columns[tap][outputs]


take_windows_ = Kernel(
    _take_windows_, f"{_FUSED}:take_windows_", arrays=2, in_place=1, cuda=f"{_CUDA}:take_windows_"
)
add_windows_ = Kernel(
    _add_windows_, f"{_FUSED}:add_windows_", arrays=2, in_place=2, cuda=f"{_CUDA}:add_windows_"
)
