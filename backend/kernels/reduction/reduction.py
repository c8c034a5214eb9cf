"""Sums that plain NumPy does slowly or loosely: of squares, and over the rows of a matrix."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["column_sum", "sum_of_squares"]

_FUSED = "shardwise.backend.kernels.reduction.reduction_cpu"
_CUDA = "shardwise.backend.kernels.reduction.reduction_cuda"


def _sum_of_squares(x: Array) -> Array:
    """The sum of ``|x|**2`` over all elements, added up in float64: for norms of gradients.

    Parameters
    ----------
    x : real or complex array, any shape

    Returns
    -------
    array of float64, shape ()
    """
    if x.dtype.kind == "c":
        x = np.abs(x)
    wide = np.reshape(x, (-1,)).astype(np.float64)
    return np.reshape(np.sum(wide * wide, keepdims=True), ())


def _column_sum(g: Array) -> Array:
    """The sum over all dims but the last: the gradient of a bias.

    Parameters
    ----------
    g : floating array, shape (..., columns)

    Returns
    -------
    array of `g`'s dtype, shape (columns,)
    """
    total: Array = np.sum(g, axis=tuple(range(g.ndim - 1)))
    return total


sum_of_squares = Kernel(_sum_of_squares, f"{_FUSED}:sum_of_squares", arrays=1, cuda=f"{_CUDA}:sum_of_squares")
column_sum = Kernel(_column_sum, f"{_FUSED}:column_sum", arrays=1, cuda=f"{_CUDA}:column_sum")
