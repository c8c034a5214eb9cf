"""Matrix products of NumPy arrays by the faster of NumPy's BLAS and MKL."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import ml_dtypes
import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kind import is_narrow
from shardwise.backend.mkl import Mkl, load_mkl

__all__ = ["VARIABLE", "chosen_mkl", "has_bfloat16", "matmul", "matmul_wide"]

VARIABLE = "SHARDWISE_BLAS"
_WORTH_A_CALL = 2**20  # multiply-adds from which the 6 us of a call through ctypes are lost in the product
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return ``numpy.matmul(a, b, out)``.

    Parameters
    ----------
    a, b : Array of any kind, or Tensor
    out : Array, optional
        The result is written there.

    Notes
    -----
    NumPy's matrices of 16-bit floats give float32, see `matmul_wide`. MKL multiplies NumPy's matrices
    of one wider floating dtype where it is chosen, see `chosen_mkl`, and the product is large enough;
    everything else is NumPy's.
    """
    if is_narrow(a.dtype) and b.dtype == a.dtype and out is None:
        return matmul_wide(a, b) if type(a) is type(b) is np.ndarray else np.matmul(a, b)
    mkl = chosen_mkl()
    if mkl is None or type(a) is not np.ndarray or type(b) is not np.ndarray:
        return np.matmul(a, b, out=out)
    dtype = a.dtype
    if dtype not in _FLOATS or b.dtype != dtype or min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2]:
        return np.matmul(a, b, out=out)
    if a.size * b.shape[-1] < _WORTH_A_CALL or b.size == 0:
        return np.matmul(a, b, out=out)
    batch = a.shape[:-2]
    if batch != b.shape[:-2]:
        batch = np.broadcast_shapes(batch, b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    if out is not None and (type(out) is not np.ndarray or out.shape != shape or out.dtype != dtype):
        return np.matmul(a, b, out=out)
    result = np.empty(shape, dtype) if out is None else out
    flat: list[Array | None] = [_one_batch(x, batch) for x in (a, b, result)] if batch else [a, b, result]
    left, right, place = flat
    overlap = out is not None and (np.may_share_memory(out, a) or np.may_share_memory(out, b))
    if left is None or right is None or place is None or overlap or not mkl.matmul(left, right, place):
        return np.matmul(a, b, out=out)
    return result


def matmul_wide(a: Array, b: Array) -> Array:
    """Return the product of 16-bit matrices in float32.

    Parameters
    ----------
    a, b : Array of any kind
        float16 or bfloat16, of one dtype; float32 is taken as well.

    Notes
    -----
    Matrices of bfloat16 are multiplied as such where `has_bfloat16` says so: products of 8 bits each,
    summed in float32. All others are widened first.
    """
    plain = type(a) is np.ndarray and type(b) is np.ndarray and a.ndim == b.ndim == 2
    if plain and a.dtype == b.dtype == _BFLOAT16 and a.size * b.shape[1] >= _WORTH_A_CALL and has_bfloat16():
        mkl = chosen_mkl()
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        if mkl is not None and a.shape[1] == b.shape[0] and mkl.matmul_bfloat16(a, b, out):
            return out
    return matmul(_widened(a), _widened(b))


def _widened(x: Array) -> Array:
    return x.astype(np.float32) if is_narrow(x.dtype) else x


@functools.cache
def has_bfloat16() -> bool:
    """Tell whether products of bfloat16 are computed as such: MKL is chosen, and the processor can."""
    return chosen_mkl() is not None and bool({"avx512_bf16", "amx_bf16"} & set(_cpuinfo().split()))


def _one_batch(x: Array, batch: tuple[int, ...]) -> Array | None:
    """Return a view with one batch dim, None if memory does not allow one."""
    wide = x if x.shape[:-2] == batch else np.broadcast_to(x, (*batch, *x.shape[-2:]))
    if len(batch) == 1:
        return wide
    try:
        return np.reshape(wide, (-1, *x.shape[-2:]), copy=False)
    except ValueError:
        return None


@functools.cache
def chosen_mkl() -> Mkl | None:
    """Return MKL if it multiplies in this process, loading it; None if NumPy's BLAS does.

    The environment variable ``SHARDWISE_BLAS`` decides, ``mkl`` or ``numpy``. If it is not set, MKL is
    taken where the ``mkl`` package is installed (``pip install 'shardwise[mkl]'``) and the processor is
    Intel's: on AMD's Zen 4 NumPy's OpenBLAS was measured to be the faster one, by 2 to 4 % on large
    matrices and by 20 to 70 % on batches of small ones. A choice by measurement at run time could differ
    between ranks, whose results would then differ in their last bits.

    Raises
    ------
    ArgumentError
        If the variable names neither, or MKL where there is none.
    """
    wanted = os.environ.get(VARIABLE, "").lower()
    if wanted not in ("", "mkl", "numpy"):
        raise ArgumentError(f"{VARIABLE} must be 'mkl' or 'numpy', got {wanted!r}")
    if wanted == "numpy" or (not wanted and not _is_intel()):
        return None
    mkl = load_mkl()
    if mkl is None and wanted:
        raise ArgumentError(
            f"{VARIABLE} asks for mkl, which is not installed or does not load: pip install 'shardwise[mkl]'"
        )
    return mkl


def _is_intel() -> bool:
    return "GenuineIntel" in _cpuinfo()


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # no Linux
        return ""
