"""The way back from maxima over windows: each to the place where it was found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.nn.check import check_tensors
from shardwise.nn.functions.spatial import Sizes, batched, per_dim
from shardwise.tensor import Tensor
from shardwise.tensor.ops import gather

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with each element at its place along one dim; see `max_unpool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    indices, kernel_size, stride, padding, output_size
        As for `max_unpool2d`.
    """
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with each element at the place that `indices` names: the way back from `max_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    indices : Tensor of integers, of the same shape
        Places counted over all spatial dims of the result. Of elements with one place the last stays.
    kernel_size, stride, padding
        Of the pooling.
    output_size : sequence of int, optional
        The spatial sizes of the result, or its whole shape. Pooling leaves them open by less than a
        stride; ``(n - 1) * stride - 2 * padding + kernel_size`` if not given.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size), without batch if `input` has none

    Raises
    ------
    ShapeError, DTypeError
        Shapes that do not fit, or indices that are no integers.
    IndexRangeError
        A place outside the result (checked on the CPU).
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with each element at its place along three dims; see `max_unpool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    indices, kernel_size, stride, padding, output_size
        As for `max_unpool2d`.
    """
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    op: str,
    ndim: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    check_tensors(op, input=input, indices=indices)
    x, alone = batched(op, input, ndim)
    if indices.shape != input.shape or indices.dtype.kind not in "iu":
        raise (ShapeError if indices.dtype.kind in "iu" else DTypeError)(
            f"{op}: indices must be integers of the input's shape {input.shape}, got {indices.dtype} of "
            f"shape {indices.shape}"
        )
    kernel = per_dim(op, "kernel_size", kernel_size, ndim)
    strides = kernel if stride is None or stride == [] else per_dim(op, "stride", stride, ndim)
    fronts = per_dim(op, "padding", padding, ndim, 0)
    usual = tuple(
        (n - 1) * s - 2 * p + k for n, k, s, p in zip(x.shape[2:], kernel, strides, fronts, strict=True)
    )
    size = usual
    if output_size is not None:
        size = tuple(output_size)[-ndim:] if len(output_size) in (ndim, input.ndim) else ()
        if not size or any(abs(n - m) >= s for n, m, s in zip(size, usual, strides, strict=True)):
            raise ShapeError(
                f"{op}: output_size must be {usual}, give or take less than the stride {strides}; got "
                f"{tuple(output_size)}"
            )
    if min(size) < 1:
        raise ShapeError(f"{op}: an input of shape {input.shape} would come out with spatial sizes {size}")
    batch, channels = x.shape[:2]
    places, length = math.prod(x.shape[2:]), math.prod(size)
    nothing = x.wrap(np.zeros_like(x.data, order="C", shape=(batch, channels, length)))
    rows = indices.reshape(batch, channels, places)
    flat = gather.Scatter.apply(nothing, rows, x.reshape(batch, channels, places), dim=2)
    out = flat.reshape(batch, channels, *size)
    return out.squeeze(0) if alone else out
