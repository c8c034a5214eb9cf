"""Means, and means of powers, over sliding windows."""

from __future__ import annotations

import math

from shardwise.backend.errors import ArgumentError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.functions.spatial import Sizes, batched, per_dim, windows_along
from shardwise.tensor import Tensor, where
from shardwise.tensor.ops import pooling

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d"]


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window over one dim; see `avg_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As for `avg_pool2d`.
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    kernel_size : int or tuple of int
        Of the windows.
    stride : int or tuple of int, optional
        Places from one window to the next; `kernel_size` if not given.
    padding : int or tuple of int
        Zeros on both sides; at most half of the kernel.
    ceil_mode : bool
        Keep a last window that reaches beyond the padding, if it starts inside; what is beyond does not
        count.
    count_include_pad : bool
        Whether zeros of the padding count in the mean.
    divisor_override : int, optional
        Divide sums by this, instead of by how many elements they are of.

    Returns
    -------
    Tensor, shape (batch, channels, *windows), without batch if `input` has none

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes, dtypes or options that do not fit together.
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window over three dims; see `avg_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        As for `avg_pool2d`.
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _avg_pool(
    op: str,
    ndim: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    check_tensors(op, input=input)
    x, alone = batched(op, input, ndim)
    check_dtypes(op, input=input)
    kernel = per_dim(op, "kernel_size", kernel_size, ndim)
    strides = kernel if stride is None or stride == [] else per_dim(op, "stride", stride, ndim)
    fronts = per_dim(op, "padding", padding, ndim, 0)
    if divisor_override is not None and not divisor_override:
        raise ArgumentError(f"{op}: divisor_override must not be 0; leave it out to divide by the counts")
    size, ones = x.shape[2:], (1,) * ndim
    numbers = windows_along(op, size, kernel, strides, fronts, ones, ceil_mode)
    windows, counts = [], []
    for n, k, s, p, number in zip(size, kernel, strides, fronts, numbers, strict=True):
        ends = [(i * s - p, min(i * s - p + k, n + p)) for i in range(number)]
        seen = tuple(range(max(start, 0), min(stop, n)) for start, stop in ends)
        windows.append(seen)
        counts.append(
            tuple(stop - start for start, stop in ends) if count_include_pad else tuple(map(len, seen))
        )
    if divisor_override is not None:
        counts = [(1,) * number for number in numbers]
        counts[0] = (divisor_override,) * numbers[0]
    out = pooling.AveragePool.apply(x, windows=tuple(windows), counts=tuple(counts))
    return out.squeeze(0) if alone else out


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of order `norm_type` of each window over one dim; see `lp_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    norm_type, kernel_size, stride, ceil_mode
        As for `lp_pool2d`.
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return, of each window, the sum of the powers of order `norm_type`, raised to ``1 / norm_type``.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    norm_type : float
        Not 0. Negative elements are not turned positive: odd orders want positive input.
    kernel_size : int or tuple of int
    stride : int or tuple of int, optional
        `kernel_size` if not given.
    ceil_mode : bool
        As for `avg_pool2d`; what a window lacks is made up for by its mean.

    Returns
    -------
    Tensor, shape (batch, channels, *windows), without batch if `input` has none
        Windows whose sum is 0 give 0, and no gradient.
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the norm of order `norm_type` of each window over three dims; see `lp_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    norm_type, kernel_size, stride, ceil_mode
        As for `lp_pool2d`.
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    op: str,
    ndim: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:
    if not norm_type:
        raise ArgumentError(f"{op}: norm_type must not be 0, got {norm_type}")
    check_tensors(op, input=input)
    powers = input**norm_type
    means = _avg_pool(op, ndim, powers, kernel_size, stride, 0, ceil_mode, True, None)
    sums = means * float(math.prod(per_dim(op, "kernel_size", kernel_size, ndim)))
    # A root is steep at 0: there the gradient would be 0 times infinity.
    nothing = sums == 0
    return where(nothing, 0.0, where(nothing, 1.0, sums) ** (1.0 / norm_type))
