"""New device arrays, and copies from and to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy._array import ndarray, upload
from cupy._launch import new

__all__ = ["__version__", "array", "asarray", "asnumpy", "empty", "full", "ones", "zeros"]

__version__ = "14.2.0"


def empty(shape: Any, dtype: Any = float) -> Any:
    return new(shape, dtype)


def zeros(shape: Any, dtype: Any = float) -> Any:
    array = new(shape, dtype)
    array.fill(0)
    return array


def ones(shape: Any, dtype: Any = float) -> Any:
    array = new(shape, dtype)
    array.fill(1)
    return array


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    array = new(shape, np.asarray(fill_value).dtype if dtype is None else dtype)
    array.fill(fill_value)
    return array


def array(obj: Any, dtype: Any = None, copy: bool = True) -> Any:
    if isinstance(obj, ndarray):
        return obj.astype(obj.dtype if dtype is None else dtype, copy=copy)
    return upload(obj, dtype)


def asarray(obj: Any, dtype: Any = None) -> Any:
    return array(obj, dtype, copy=False)


def asnumpy(a: Any) -> np.ndarray:
    return a.get() if isinstance(a, ndarray) else np.asarray(a)
