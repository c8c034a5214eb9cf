"""Sliding windows as columns, and back."""

from __future__ import annotations

import math

from shardwise.backend.errors import ShapeError
from shardwise.nn.check import check_tensors
from shardwise.nn.functions.spatial import Sizes, batched, per_dim
from shardwise.tensor import Tensor
from shardwise.tensor.ops import window

__all__ = ["fold", "unfold"]


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Return the sliding windows of an image as columns.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    kernel_size : int or tuple of int
        Of the windows.
    dilation, padding, stride : int or tuple of int
        As for `conv2d`.

    Returns
    -------
    Tensor, shape (batch, channels * elements of a window, windows), without batch if `input` has none
        The convolution with `weight` is ``weight.flatten(1) @ unfold(input, ...)``.
    """
    check_tensors("unfold", input=input)
    x, alone = batched("unfold", input, 2)
    kernel, strides, fronts, dilations = _windows("unfold", kernel_size, stride, padding, dilation)
    out = _counts("unfold", x.shape[2:], kernel, strides, fronts, dilations)
    columns = window.Unfold.apply(
        x, kernel=kernel, out=out, stride=strides, padding=fronts, dilation=dilations
    )
    return columns.squeeze(0) if alone else columns


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return an image of `output_size` of the columns of `unfold`, added up where windows overlap.

    Parameters
    ----------
    input : Tensor, shape (batch, channels * elements of a window, windows), batch optional
    output_size, kernel_size : int or tuple of int
    dilation, padding, stride : int or tuple of int

    Returns
    -------
    Tensor, shape (batch, channels, *output_size), without batch if `input` has none
    """
    check_tensors("fold", input=input)
    if input.ndim not in (2, 3):
        raise ShapeError(
            "fold: input must have shape (batch, channels * elements of a window, windows) or the same "
            f"without batch, got {input.shape}"
        )
    x = input.unsqueeze(0) if input.ndim == 2 else input
    size = per_dim("fold", "output_size", output_size, 2)
    kernel, strides, fronts, dilations = _windows("fold", kernel_size, stride, padding, dilation)
    out = _counts("fold", size, kernel, strides, fronts, dilations)
    if x.shape[1] % math.prod(kernel) or x.shape[2] != math.prod(out):
        raise ShapeError(
            f"fold: an image of {size} has {math.prod(out)} windows of {math.prod(kernel)} elements, so "
            f"input must have shape (batch, channels * {math.prod(kernel)}, {math.prod(out)}); got "
            f"{input.shape}"
        )
    image = window.Fold.apply(
        x, kernel=kernel, size=size, out=out, stride=strides, padding=fronts, dilation=dilations
    )
    return image.squeeze(0) if input.ndim == 2 else image


def _windows(
    op: str, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (
        per_dim(op, "kernel_size", kernel_size, 2),
        per_dim(op, "stride", stride, 2),
        per_dim(op, "padding", padding, 2, 0),
        per_dim(op, "dilation", dilation, 2),
    )


def _counts(
    op: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Return how many windows there are along each dim."""
    dims = zip(size, kernel, stride, padding, dilation, strict=True)
    counts = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in dims)
    if min(counts) < 1:
        raise ShapeError(
            f"{op}: windows of {kernel} with dilation {dilation} do not fit into an image of {size} with "
            f"padding {padding}"
        )
    return counts
