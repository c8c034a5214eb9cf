"""Matrix products by Intel's MKL, from the ``mkl`` wheel: what is called of it, through ctypes."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from shardwise.backend.array import Array

__all__ = ["Mkl", "layout_of", "load_mkl"]

_logger = logging.getLogger(__name__)

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
_INT = ctypes.c_int
_POINTER = ctypes.c_void_p
_REALS: Mapping[np.dtype[np.generic], tuple[str, type[ctypes.c_float] | type[ctypes.c_double]]] = {
    np.dtype(np.float32): ("s", ctypes.c_float),
    np.dtype(np.float64): ("d", ctypes.c_double),
}
_LARGEST = 2**31 - 1  # sizes are 32-bit integers there


def layout_of(x: Array) -> tuple[int, int, int] | None:
    """Tell how a matrix, or each of a batch, lies in memory, as BLAS wants to be told.

    Parameters
    ----------
    x : array of shape (m, n) or (batch, m, n), none of them 0

    Returns
    -------
    order : int
        CBLAS's constant for rows, or for columns, that lie behind each other.
    leading : int
        Elements from one row, or column, to the next.
    batch : int
        Elements from one matrix to the next.

    None, if BLAS cannot take it.
    """
    size = x.itemsize
    rows, columns = x.strides[-2:]
    m, n = x.shape[-2:]
    batch = x.strides[0] if x.ndim == 3 else 0
    if not x.flags.aligned or rows % size or columns % size or batch % size or batch < 0:
        return None
    if (columns == size or n == 1) and rows >= n * size:
        layout = _PLAIN, rows // size, batch // size
    elif (rows == size or m == 1) and columns >= m * size:
        layout = _TRANSPOSED, columns // size, batch // size
    else:
        return None
    return layout if max(layout) <= _LARGEST else None


class Mkl:
    """The functions of an MKL that has been loaded.

    Parameters
    ----------
    library : ctypes.CDLL

    Attributes
    ----------
    version : str
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        text = ctypes.create_string_buffer(256)
        library.MKL_Get_Version_String(text, len(text))
        self.version = text.value.decode().partition(" for ")[0]
        self._single = {}
        self._batched = {}
        for dtype, (letter, real) in _REALS.items():
            product = library[f"cblas_{letter}gemm"]
            product.restype = None
            product.argtypes = [*[_INT] * 6, real, _POINTER, _INT, _POINTER, _INT, real, _POINTER, _INT]
            self._single[dtype] = product
            many = library[f"cblas_{letter}gemm_batch_strided"]
            many.restype = None
            many.argtypes = [
                *[_INT] * 6, real, _POINTER, _INT, _INT, _POINTER, _INT, _INT,
                real, _POINTER, _INT, _INT, _INT,
            ]  # fmt: skip
            self._batched[dtype] = many
        self._narrow = library["cblas_gemm_bf16bf16f32"]
        self._narrow.restype = None
        self._narrow.argtypes = [
            *[_INT] * 6, ctypes.c_float, _POINTER, _INT, _POINTER, _INT, ctypes.c_float, _POINTER, _INT,
        ]  # fmt: skip

    def matmul(self, a: Array, b: Array, out: Array) -> bool:
        """Write ``a @ b`` into `out`, if MKL can.

        Parameters
        ----------
        a, b, out : arrays of one dtype, float32 or float64
            Of shapes (m, k), (k, n), (m, n), all nonzero, or each with a leading batch dim of one size.

        Returns
        -------
        bool
            False, and nothing done, if memory is laid out as MKL cannot take it.
        """
        left, right, place = layout_of(a), layout_of(b), layout_of(out)
        if left is None or right is None or place is None or place[0] != _PLAIN:
            return False
        m, k = a.shape[-2:]
        n = b.shape[-1]
        order_a, leading_a, batch_a = left
        order_b, leading_b, batch_b = right
        _, leading, batch = place
        if out.ndim == 3 and out.shape[0] == 1:
            batch = leading * m  # what the strides say of a dim of one means nothing
        elif out.ndim == 3 and batch < leading * m:
            return False  # rows of one matrix between those of another: MKL refuses to write that
        at_a, at_b, at = a.ctypes.data, b.ctypes.data, out.ctypes.data
        if a.ndim == 2:
            self._single[a.dtype](
                _ROW_MAJOR, order_a, order_b, m, n, k,
                1.0, at_a, leading_a, at_b, leading_b, 0.0, at, leading,
            )  # fmt: skip
        else:
            self._batched[a.dtype](
                _ROW_MAJOR, order_a, order_b, m, n, k,
                1.0, at_a, leading_a, batch_a, at_b, leading_b, batch_b,
                0.0, at, leading, batch, a.shape[0],
            )  # fmt: skip
        return True

    def matmul_bfloat16(self, a: Array, b: Array, out: Array) -> bool:
        """Write ``a @ b`` of bfloat16 matrices into a float32 `out`, summed in float32; see `matmul`."""
        left, right, place = layout_of(a), layout_of(b), layout_of(out)
        if left is None or right is None or place is None or place[0] != _PLAIN:
            return False
        m, k = a.shape
        self._narrow(
            _ROW_MAJOR, left[0], right[0], m, b.shape[1], k,
            1.0, a.ctypes.data, left[1], b.ctypes.data, right[1], 0.0, out.ctypes.data, place[1],
        )  # fmt: skip
        return True


@functools.cache
def load_mkl() -> Mkl | None:
    """Return MKL, loaded on the first call with as many threads as NumPy's BLAS has; None without it."""
    path = _library()
    if path is None:
        return None
    threads = _threads()
    try:
        mkl = Mkl(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        _logger.warning("the mkl package is installed and does not load, so NumPy multiplies: %s", error)
        return None
    threadpool_limits(limits=threads, user_api="blas")
    return mkl


def _library() -> Path | None:
    """Return the library in which MKL finds its parts, from the list of the wheel's files."""
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith("libmkl_rt.so"):
            return Path(str(file.locate())).resolve()
    return None


def _threads() -> int:
    """Return how many threads NumPy's BLAS has."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
