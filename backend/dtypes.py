"""Dtypes by name, as PyTorch has them: ``sw.float32``, ``sw.bfloat16``, ``sw.long``.

They are NumPy's own dtypes, so that ``x.dtype == sw.float32`` and ``x.dtype == np.float32`` say the same.
This module holds nothing else, because some of the names are those of Python's own types.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

__all__ = [
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "double",
    "float",
    "float16",
    "float32",
    "float64",
    "half",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip

bool = np.dtype(np.bool_)
uint8, uint16 = np.dtype(np.uint8), np.dtype(np.uint16)
uint32, uint64 = np.dtype(np.uint32), np.dtype(np.uint64)
int8, int16 = np.dtype(np.int8), np.dtype(np.int16)
int32, int64 = np.dtype(np.int32), np.dtype(np.int64)
float16, float32, float64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
bfloat16 = np.dtype(ml_dtypes.bfloat16)  # 16 bits with the range of float32
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)

# PyTorch's other names; NumPy's and Python's own int and float have 64 bits
short, int, long = int16, int32, int64
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128
