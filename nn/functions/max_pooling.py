"""Maxima over sliding windows."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, overload

from shardwise.backend.errors import DTypeError, ShapeError
from shardwise.nn.check import check_tensors
from shardwise.nn.functions.spatial import Sizes, batched, per_dim, windows_along
from shardwise.tensor import Tensor
from shardwise.tensor.ops import pooling

__all__ = ["max_pool1d", "max_pool2d", "max_pool3d"]


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window over one dim; see `max_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As for `max_pool2d`.
    """
    pair = _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return pair if return_indices else pair[0]


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
        Real, of any dtype. Of equal elements the first counts; NaN is larger than all else.
    kernel_size : int or tuple of int
        Of the windows.
    stride : int or tuple of int, optional
        Places from one window to the next; `kernel_size` if not given.
    padding : int or tuple of int
        Places outside on both sides, of which no maximum is taken; at most half of the kernel.
    dilation : int or tuple of int
        Places from one element of a window to the next.
    ceil_mode : bool
        Keep a last window that reaches beyond the padding, if it starts inside.
    return_indices : bool
        Return the elements' places as well, counted over all spatial dims, int64.

    Returns
    -------
    Tensor, or a tuple of two
        Shape (batch, channels, *windows), without batch if `input` has none.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Shapes, dtypes or options that do not fit together.

    Examples
    --------
    >>> import shardwise as sw
    >>> from shardwise.nn import functional as F
    >>> F.max_pool2d(sw.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """
    pair = _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return pair if return_indices else pair[0]


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window over three dims; see `max_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As for `max_pool2d`.
    """
    pair = _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return pair if return_indices else pair[0]


def _max_pool(
    op: str,
    ndim: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    check_tensors(op, input=input)
    x, alone = batched(op, input, ndim)
    if x.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order, got {x.dtype}; take abs() first")
    kernel = per_dim(op, "kernel_size", kernel_size, ndim)
    strides = kernel if stride is None or stride == [] else per_dim(op, "stride", stride, ndim)
    fronts, dilations = per_dim(op, "padding", padding, ndim, 0), per_dim(op, "dilation", dilation, ndim)
    size = x.shape[2:]
    counts = windows_along(op, size, kernel, strides, fronts, dilations, ceil_mode)
    windows = _windows(size, kernel, strides, fronts, dilations, counts)
    if not all(map(all, windows)):  # a range that is empty is false
        raise ShapeError(
            f"{op}: a window of {kernel} with dilation {dilations} sees nothing of an input of {size} with "
            f"padding {fronts}; give less padding or dilation"
        )
    out, places = pooling.MaxPool.apply(x, windows=windows)
    return (out.squeeze(0), places.squeeze(0)) if alone else (out, places)


@lru_cache(256)
def _windows(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    counts: tuple[int, ...],
) -> tuple[tuple[range, ...], ...]:
    """Return, per dim, the input places of each window; the same layer asks again and again."""
    return tuple(
        tuple(_seen(n, i * s - p, k, d) for i in range(count))
        for n, k, s, p, d, count in zip(size, kernel, stride, padding, dilation, counts, strict=True)
    )


def _seen(size: int, start: int, kernel: int, dilation: int) -> range:
    """Return the input places of a window."""
    stop = min(start + (kernel - 1) * dilation + 1, size)
    return range(start if start >= 0 else start % dilation, stop, dilation)
