"""Casts between float32 and the floats of 16 bits, at the speed of the memory.

NumPy casts float16 one element at a time, and ml_dtypes rounds to bfloat16 so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.dtypes import bfloat16
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["cast", "to_bfloat16", "to_float16", "widened_float16"]

_FUSED = "shardwise.backend.kernels.pointwise.casting_cpu"
_LEAST = 1 << 14
_FLOAT32, _FLOAT16, _BFLOAT16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(bfloat16)


def cast(x: Any, dtype: Any) -> Any:
    """``x.astype(dtype)``, for formulas: a copy in any case.

    Parameters
    ----------
    x : array of any kind
    dtype : dtype
    """
    if type(x) is np.ndarray and x.size >= _LEAST:
        if x.dtype == _FLOAT32:
            if dtype == _FLOAT16:
                return to_float16(x)
            if dtype == _BFLOAT16:
                return to_bfloat16(x)
        elif x.dtype == _FLOAT16 and dtype == _FLOAT32:
            return widened_float16(x.view(np.uint16))
    return x.astype(dtype)


@np.errstate(over="ignore")
def _to_float16(x: Array) -> Array:
    """`x` rounded to float16, ties to even; infinite beyond its range."""
    return x.astype(np.float16)


def _to_bfloat16(x: Array) -> Array:
    """`x` rounded to bfloat16, ties to even."""
    return x.astype(bfloat16)


def _widened_float16(bits: Array) -> Array:
    """The float16 numbers that are behind `bits`, uint16, as float32."""
    return bits.view(np.float16).astype(np.float32)


to_float16 = Kernel(_to_float16, f"{_FUSED}:to_float16", arrays=1)
to_bfloat16 = Kernel(_to_bfloat16, f"{_FUSED}:to_bfloat16", arrays=1)
widened_float16 = Kernel(_widened_float16, f"{_FUSED}:widened_float16", arrays=1, integer="bits")
