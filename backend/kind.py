"""What a dtype is: read, classed, and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import DTypeError

__all__ = ["as_dtype", "finfo", "iinfo", "is_float", "is_narrow"]

_finfo: Callable[[np.dtype[Any]], np.finfo[Any]] = ml_dtypes.finfo  # knows NumPy's dtypes and bfloat16


def as_dtype(dtype: DTypeLike, name: str = "astype") -> np.dtype[Any]:
    """Return the dtype that a name, class or dtype stands for.

    Parameters
    ----------
    dtype : dtype
        ``np.float32``, ``"bfloat16"``, ``sw.long``. Python's ``float``, ``int``, ``bool`` and ``complex``
        are float64, int64, bool and complex128, as for NumPy.
    name : str
        Who asks, for the message.

    Raises
    ------
    DTypeError
        It stands for none.
    """
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(
            f"{name}: {dtype!r} is no dtype; wanted one such as 'float32', 'bfloat16' or np.int64"
        ) from error


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype holds real floating-point numbers, bfloat16 included."""
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is a float of 16 bits: float16 or bfloat16."""
    return dtype.itemsize == 2 and dtype.kind in "fV"  # V: bfloat16


def finfo(dtype: DTypeLike = np.float32) -> np.finfo[Any]:
    """Return the limits of a floating-point dtype, bfloat16 included: ``min``, ``max``, ``eps``, ``tiny``.

    Examples
    --------
    >>> float(finfo("bfloat16").eps)
    0.0078125
    """
    kind = as_dtype(dtype, "finfo")
    if not (is_float(kind) or kind.kind == "c"):
        raise DTypeError(f"finfo: wanted a floating-point dtype, got {kind}; iinfo is for integers")
    return _finfo(kind)


def iinfo(dtype: DTypeLike) -> np.iinfo[Any]:
    """Return the limits of an integer dtype: ``min``, ``max``, ``bits``.

    Examples
    --------
    >>> int(iinfo("int8").max)
    127
    """
    kind = as_dtype(dtype, "iinfo")
    if kind.kind not in "iu":
        raise DTypeError(f"iinfo: wanted an integer dtype, got {kind}; finfo is for floating-point ones")
    return np.iinfo(kind)
