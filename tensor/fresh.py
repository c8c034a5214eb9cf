"""New arrays, on any device: of values, of one number, of nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.dlpack import from_dlpack
from shardwise.backend.errors import ArgumentError, DTypeError, ShapeError
from shardwise.backend.kind import as_dtype
from shardwise.backend.select import BACKENDS, backend_of, get_backend
from shardwise.tensor.methods.carrier import Carrier

__all__ = ["Size", "array_of", "filled", "moved", "read_shape", "unset"]

Size: TypeAlias = int | Sequence[int]

_ARRAYS = ("__array__", "__array_interface__", "__cuda_array_interface__")


def array_of(
    data: Any, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None
) -> Array:
    """Return an array with the values of `data`.

    Parameters
    ----------
    data : number, nested sequence, array or Tensor
        Arrays keep their dtype; Python floats become float32, complex numbers complex64.
    dtype : dtype, optional
    device : str, optional
        Where `data` is, if not given.
    copy : bool, optional
        True always, False never, None if need be.

    Raises
    ------
    DTypeError
        The values are neither numbers nor booleans.
    ShapeError
        Nested sequences of different lengths.
    """
    if dtype is not None:
        dtype = as_dtype(dtype, "tensor")
    if isinstance(data, Carrier):
        data = data.data
    owner = next((backend for backend in BACKENDS if backend.owns(data)), None)
    if owner is None and hasattr(data, "__dlpack__"):
        data = from_dlpack(data)
        owner = backend_of(data)
    elif not any(hasattr(data, name) for name in _ARRAYS):
        weak = _is_weak(data)
        try:
            data = np.asarray(_unwrapped(data))
        except ValueError as error:
            raise ShapeError(
                f"cannot make a tensor of sequences of different lengths: {error}; pad them to one length"
            ) from error
        if dtype is None and weak:
            dtype = {"f": np.float32, "c": np.complex64}.get(data.dtype.kind)
    kind = getattr(data, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "OUSMm":
        raise DTypeError(f"cannot make a tensor of {kind} values; numbers and booleans only")
    if device is None:
        device = "cpu" if owner is None else owner.device_of(data)
    return get_backend(device).asarray(data, dtype=dtype, copy=copy)


def _is_weak(data: Any) -> bool:
    """Tell whether the first number in nested sequences is Python's, which has no dtype."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return not hasattr(data, "dtype")


def _unwrapped(data: Any) -> Any:
    """Return nested sequences with the arrays of the tensors in them."""
    if isinstance(data, Carrier):
        array = data.data
        return array if any(backend.owns(array) for backend in BACKENDS) else np.asarray(array)
    if isinstance(data, (list, tuple)) and any(isinstance(each, (Carrier, list, tuple)) for each in data):
        return [_unwrapped(each) for each in data]
    return data


def read_shape(sizes: Sequence[object]) -> tuple[int, ...]:
    """Accept ``f(2, 3)``, ``f((2, 3))`` and ``f([2, 3])``."""
    given: list[object] = []
    for size in sizes:
        given.extend(size if isinstance(size, (tuple, list)) else (size,))
    shape = tuple(int(n) for n in given if isinstance(n, (int, np.integer)) and n >= 0)
    if len(shape) != len(given):
        raise ArgumentError(f"sizes must be integers of at least 0, got {tuple(given)}")
    return shape


def unset(shape: tuple[int, ...], dtype: DTypeLike | None, device: str | None = None) -> Array:
    """Return an array whose values mean nothing yet; float32, if `dtype` is None."""
    return get_backend(device or "cpu").empty(shape, as_dtype(dtype or np.float32, "empty"))


def filled(
    shape: tuple[int, ...], value: complex, dtype: DTypeLike | None, device: str | None = None
) -> Array:
    """Return an array with one number in every place; float32, if `dtype` is None."""
    kind = as_dtype(dtype or np.float32, "full")
    if device is not None and get_backend(device).name == "shape":
        return unset(shape, kind, device)
    # zeros are pages that the system has not given out yet
    return moved(np.full(shape, value, kind) if value else np.zeros(shape, kind), device)


def moved(array: Array, device: str | None) -> Array:
    """Return an array, made on the host, on a device."""
    return array if device is None or device == "cpu" else get_backend(device).asarray(array)
