"""Make tensors filled with one number, or with nothing yet."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.tensor.creation import as_tensor
from shardwise.tensor.fresh import Size, array_of, filled, read_shape, unset
from shardwise.tensor.tensor import Tensor

__all__ = ["empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def empty(
    *sizes: Size,
    size: Size | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of a shape, ``empty(2, 3)`` or ``empty((2, 3))``, with whatever was in memory.

    float32, if no dtype is given.
    """
    return Tensor(unset(_shape(sizes, size), dtype, device), requires_grad)


def zeros(
    *sizes: Size,
    size: Size | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of a shape, ``zeros(2, 3)`` or ``zeros((2, 3))``, filled with 0.

    float32, if no dtype is given.
    """
    return Tensor(filled(_shape(sizes, size), 0, dtype, device), requires_grad)


def ones(
    *sizes: Size,
    size: Size | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of a shape, ``ones(2, 3)`` or ``ones((2, 3))``, filled with 1.

    float32, if no dtype is given.
    """
    return Tensor(filled(_shape(sizes, size), 1, dtype, device), requires_grad)


def full(
    size: Size,
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of `size` filled with `fill_value`, whose dtype it has, if none is given."""
    if dtype is None:
        dtype = array_of(fill_value).dtype
    return Tensor(filled(read_shape((size,)), fill_value, dtype, device), requires_grad)


def _shape(sizes: tuple[Size, ...], size: Size | None) -> tuple[int, ...]:
    if size is not None and sizes:
        raise ArgumentError(f"got the sizes {sizes} and also size={size}; give one of them")
    return read_shape(sizes if size is None else (size,))


def empty_like(
    input: Tensor | Array,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of the shape, dtype and device of `input`, with whatever was in memory."""
    x = as_tensor(input)
    return _like(x, np.empty_like(x.data, dtype=dtype), device, requires_grad)


def zeros_like(
    input: Tensor | Array,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return zeros of the shape, dtype and device of `input`."""
    x = as_tensor(input)
    return _like(x, np.zeros_like(x.data, dtype=dtype), device, requires_grad)


def ones_like(
    input: Tensor | Array,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ones of the shape, dtype and device of `input`."""
    x = as_tensor(input)
    return _like(x, np.ones_like(x.data, dtype=dtype), device, requires_grad)


def full_like(
    input: Tensor | Array,
    fill_value: complex,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `fill_value` in the shape, dtype and device of `input`."""
    x = as_tensor(input)
    return _like(x, np.full_like(x.data, fill_value, dtype=dtype), device, requires_grad)


def _like(x: Tensor, array: Array, device: str | None, requires_grad: bool) -> Tensor:
    out = x.wrap(array).to(device=device)
    return out.requires_grad_() if requires_grad else out
