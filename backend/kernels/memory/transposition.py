"""Copies in C order of arrays whose last dim is not the one that lies densely in memory.

NumPy walks along the rows of the result, so that each element comes from another line of the cache; where
strides are powers of two these lines even displace each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["compact", "transposed"]

_LEAST = 1 << 16  # elements of a matrix; of smaller ones all lines stay in the cache
_SHORTEST = 8  # rows and columns; below, lines are not full
_WORDS = {4: np.uint32, 8: np.uint64}


def compact(x: Any) -> Any:
    """``x.copy()``: a copy in C order.

    Parameters
    ----------
    x : array of any kind
    """
    if type(x) is np.ndarray and x.size >= _LEAST and not x.flags.c_contiguous:
        matrices = _as_matrices(x)
        if matrices is not None:
            return transposed(matrices).reshape(x.shape).view(x.dtype)
    return x.copy()


def _as_matrices(x: Array) -> Array | None:
    """The memory of `x` as contiguous words (batch, columns, rows), if `x` is transposed matrices."""
    word = _WORDS.get(x.itemsize)
    if word is None or x.dtype.kind not in "fiuc" or not x.flags.aligned:
        return None
    sizes: list[int] = []
    strides: list[int] = []
    for n, stride in zip(x.shape, x.strides, strict=True):
        if n == 1:
            continue
        if sizes and strides[-1] == n * stride:
            sizes[-1], strides[-1] = sizes[-1] * n, stride
        else:
            sizes.append(n)
            strides.append(stride)
    if len(sizes) == 2:
        sizes.insert(0, 1)
    if len(sizes) != 3 or min(sizes[1:]) < _SHORTEST or sizes[1] * sizes[2] < _LEAST:
        return None
    matrices = x.reshape(sizes).transpose(0, 2, 1)
    return matrices.view(word) if matrices.flags.c_contiguous else None


def _transposed(words: Array) -> Array:
    """The matrices of a stack transposed, in C order.

    Parameters
    ----------
    words : array of uint32 or uint64, shape (batch, rows, columns)

    Returns
    -------
    array, shape (batch, columns, rows)
    """
    return words.transpose(0, 2, 1).copy()


transposed = Kernel(
    _transposed, "shardwise.backend.kernels.memory.transposition_cpu:transposed", arrays=1, integer="words"
)
