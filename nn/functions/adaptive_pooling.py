"""Pooling to an output of a given size, whose windows follow from it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Literal, TypeAlias, overload

from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn.check import check_dtypes, check_tensors
from shardwise.nn.functions.spatial import batched
from shardwise.tensor import Tensor
from shardwise.tensor.ops import pooling

__all__ = [
    "OutputSizes", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
]  # fmt: skip

OutputSizes: TypeAlias = int | Sequence[int | None] | None
"""One size for all spatial dims, or one for each; None keeps that of the input."""


def adaptive_avg_pool1d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the means of windows that divide one dim into `output_size`; see `adaptive_avg_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    output_size : int, None or tuple of these
    """
    x, alone, windows = _divided("adaptive_avg_pool1d", 1, input, output_size)
    check_dtypes("adaptive_avg_pool1d", input=input)
    counts = tuple(tuple(map(len, dim)) for dim in windows)
    out = pooling.AveragePool.apply(x, windows=windows, counts=counts)
    return out.squeeze(0) if alone else out


def adaptive_avg_pool2d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the means of windows that divide the input into `output_size`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    output_size : int, None or tuple of these
        Window ``i`` of ``m`` over ``n`` places begins at ``i * n // m`` and ends in front of
        ``ceil((i + 1) * n / m)``. None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size), without batch if `input` has none
    """
    x, alone, windows = _divided("adaptive_avg_pool2d", 2, input, output_size)
    check_dtypes("adaptive_avg_pool2d", input=input)
    counts = tuple(tuple(map(len, dim)) for dim in windows)
    out = pooling.AveragePool.apply(x, windows=windows, counts=counts)
    return out.squeeze(0) if alone else out


def adaptive_avg_pool3d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Return the means of windows that divide three dims into `output_size`; see `adaptive_avg_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    output_size : int, None or tuple of these
    """
    x, alone, windows = _divided("adaptive_avg_pool3d", 3, input, output_size)
    check_dtypes("adaptive_avg_pool3d", input=input)
    counts = tuple(tuple(map(len, dim)) for dim in windows)
    out = pooling.AveragePool.apply(x, windows=windows, counts=counts)
    return out.squeeze(0) if alone else out


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of windows that divide one dim; see `adaptive_max_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or (channels, length)
    output_size : int, None or tuple of these
    return_indices : bool
    """
    pair = _adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size)
    return pair if return_indices else pair[0]


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of windows that divide the input into `output_size`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or (channels, height, width)
    output_size : int, None or tuple of these
        As for `adaptive_avg_pool2d`.
    return_indices : bool
        Return the elements' places as well, counted over all spatial dims, int64.

    Returns
    -------
    Tensor, or a tuple of two
        Shape (batch, channels, *output_size), without batch if `input` has none.
    """
    pair = _adaptive_max_pool("adaptive_max_pool2d", 2, input, output_size)
    return pair if return_indices else pair[0]


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest elements of windows that divide three dims; see `adaptive_max_pool2d`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or (channels, depth, height, width)
    output_size : int, None or tuple of these
    return_indices : bool
    """
    pair = _adaptive_max_pool("adaptive_max_pool3d", 3, input, output_size)
    return pair if return_indices else pair[0]


def _adaptive_max_pool(op: str, ndim: int, input: Tensor, output_size: OutputSizes) -> tuple[Tensor, Tensor]:
    x, alone, windows = _divided(op, ndim, input, output_size)
    if x.dtype.kind == "c":
        raise DTypeError(f"{op}: complex numbers have no order, got {x.dtype}; take abs() first")
    out, places = pooling.MaxPool.apply(x, windows=windows)
    return (out.squeeze(0), places.squeeze(0)) if alone else (out, places)


def _divided(
    op: str, ndim: int, input: Tensor, output_size: OutputSizes
) -> tuple[Tensor, bool, tuple[tuple[range, ...], ...]]:
    """Return the input with a batch dim, whether it had none, and the windows."""
    check_tensors(op, input=input)
    x, alone = batched(op, input, ndim)
    given = tuple(output_size) if isinstance(output_size, Sequence) else (output_size,)
    wanted = given * ndim if len(given) == 1 else given
    sizes = []
    for n, size in zip(x.shape[2:], wanted, strict=False):
        try:
            sizes.append(n if size is None else operator.index(size))
        except TypeError:
            sizes.append(-1)
    if len(wanted) != ndim or min(sizes) < 0:
        raise ArgumentError(
            f"{op}: output_size must be {ndim} sizes or one, None keeps one; got {output_size!r}"
        )
    if min(x.shape[1:]) < 1:
        raise ShapeError(f"{op}: only the batch may be empty, got an input of shape {input.shape}")
    windows = tuple(
        tuple(range(i * n // m, -(-(i + 1) * n // m)) for i in range(m))
        for n, m in zip(x.shape[2:], sizes, strict=True)
    )
    return x, alone, windows
