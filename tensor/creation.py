"""Make tensors: of values, of constants, of random bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.select import get_backend
from shardwise.tensor.random import next_draw
from shardwise.tensor.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "bernoulli", "empty", "from_numpy", "full", "full_like", "ones", "ones_like",
    "rand", "randint", "randn", "randperm", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Size: TypeAlias = int | Sequence[int]


def tensor(
    data: Any, dtype: DTypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a new tensor with the values of `data`, copied.

    Parameters
    ----------
    data : number, nested sequence, array or Tensor
        Arrays keep their dtype; Python floats become float32, ints int64, bools bool,
        complex numbers complex64.
    dtype : dtype, optional
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Where the data is, if not given.
    requires_grad : bool
    """
    return _make(data, dtype, device, requires_grad, copy=True)


def as_tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return a tensor over the memory of `data` where that is possible; see `tensor`."""
    if isinstance(data, Tensor) and dtype is None and device is None:
        return data
    return _make(data, dtype, device, False, copy=None)


def from_numpy(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    """Return a tensor over the memory of a NumPy array."""
    return as_tensor(array)


def _make(
    data: Any, dtype: DTypeLike | None, device: str | None, requires_grad: bool, copy: bool | None
) -> Tensor:
    if isinstance(data, Tensor):
        data = data.data
    if not hasattr(data, "__array__") and not hasattr(data, "__cuda_array_interface__"):
        data = np.asarray(data)
        if dtype is None:
            dtype = {"f": np.float32, "c": np.complex64}.get(data.dtype.kind)
    array = data
    if hasattr(data, "dtype") and getattr(data.dtype, "kind", "O") in "OUSM":
        raise DTypeError(f"cannot make a tensor of {data.dtype} values; numbers and booleans only")
    if device is None and type(array).__module__.split(".")[0] == "cupy":
        device = "cuda"
    array = get_backend(device or "cpu").asarray(array, dtype=dtype, copy=copy)
    return Tensor(array, requires_grad)


def _shape(sizes: tuple[Size, ...]) -> tuple[int, ...]:
    """Accept ``f(2, 3)``, ``f((2, 3))`` and ``f([2, 3])``."""
    given: list[object] = []
    for size in sizes:
        given.extend(size if isinstance(size, (tuple, list)) else (size,))
    shape = tuple(int(n) for n in given if isinstance(n, (int, np.integer)) and n >= 0)
    if len(shape) != len(given):
        raise ArgumentError(f"sizes must be integers of at least 0, got {tuple(given)}")
    return shape


def _fresh(array: Any, device: str | None, requires_grad: bool) -> Tensor:
    if device is not None and device != "cpu":
        array = get_backend(device).asarray(array)
    return Tensor(array, requires_grad)


def empty(
    *size: Size, dtype: DTypeLike = np.float32, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of `size` with whatever was in memory."""
    return Tensor(get_backend(device or "cpu").empty(_shape(size), dtype), requires_grad)


def full(size: Size, value: complex, *, dtype: DTypeLike | None = None, device: str | None = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Return a tensor of `size` filled with `value`."""
    if dtype is None:
        dtype = tensor(value).dtype
    return _fresh(np.full(_shape((size,)), value, dtype), device, requires_grad)


def zeros(
    *size: Size, dtype: DTypeLike = np.float32, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of `size` filled with 0."""
    return _fresh(np.zeros(_shape(size), dtype), device, requires_grad)


def ones(
    *size: Size, dtype: DTypeLike = np.float32, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of `size` filled with 1."""
    return _fresh(np.ones(_shape(size), dtype), device, requires_grad)


def zeros_like(x: Tensor, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of the shape, dtype and device of `x`."""
    return Tensor(np.zeros_like(x.data, dtype=dtype), requires_grad)


def ones_like(x: Tensor, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return ones of the shape, dtype and device of `x`."""
    return Tensor(np.ones_like(x.data, dtype=dtype), requires_grad)


def full_like(
    x: Tensor, value: complex, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """Return `value` in the shape, dtype and device of `x`."""
    return Tensor(np.full_like(x.data, value, dtype=dtype), requires_grad)


def arange(*range_: float, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """Return evenly spaced values: ``arange(stop)``, ``arange(start, stop, step)``."""
    array = np.arange(*range_)
    if dtype is None and array.dtype.kind == "f":
        dtype = np.float32
    return _fresh(array if dtype is None else array.astype(dtype), device, False)


def rand(
    *size: Size, dtype: DTypeLike = np.float32, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return uniform random numbers in [0, 1)."""
    shape, draw = _shape(size), next_draw()
    array = bits.uniform(shape, dtype, draw.seed, draw.stream, draw.offset(shape))
    return _fresh(array, device, requires_grad)


def randn(
    *size: Size, dtype: DTypeLike = np.float32, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return normal random numbers of mean 0 and variance 1."""
    shape, draw = _shape(size), next_draw()
    array = bits.normal(shape, dtype, draw.seed, draw.stream, draw.offset(shape))
    return _fresh(array, device, requires_grad)


def randint(low: int, high: int, size: Size, device: str | None = None) -> Tensor:
    """Return int64 random integers in [low, high)."""
    shape, draw = _shape((size,)), next_draw()
    return _fresh(bits.integers(low, high, shape, draw.seed, draw.stream, draw.offset(shape)), device, False)


def randperm(n: int, device: str | None = None) -> Tensor:
    """Return the integers below `n` in random order, int64; the same order on all ranks."""
    draw = next_draw()
    return _fresh(bits.permutation(n, draw.seed, draw.stream), device, False)


def bernoulli(p: float, size: Size, device: str | None = None) -> Tensor:
    """Return booleans that are True with probability `p`."""
    shape, draw = _shape((size,)), next_draw()
    return _fresh(bits.bernoulli(shape, p, draw.seed, draw.stream, draw.offset(shape)), device, False)
