"""Sums and extremes over any dims, in one pass at the speed of the memory.

NumPy adds up pairs within a row three to four times slower than the memory gives them, and rows one after the
other, so that errors grow with their number. Here blocks of at most 1,024 elements are added up in many lanes
of the arrays' precision, and blocks in double precision, so that errors stay below those of pairwise sums.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = [
    "LARGE", "largest_over", "product_over", "smallest_over", "sum_of_numbers_over", "sum_of_sizes_over",
    "sum_of_squares_over", "sum_over",
]  # fmt: skip

Dims = tuple[int, ...]

_FUSED = "shardwise.backend.kernels.reduction.total_cpu"
_EXTREME = "shardwise.backend.kernels.reduction.extreme_cpu"
LARGE = 1 << 15
"""Elements from which the fused version runs: importing numba takes as long as ten thousand such sums."""


def _sum_over(x: Array, dims: Dims) -> Array:
    """The sum over some dims.

    Parameters
    ----------
    x : floating array
    dims : tuple of int
        Counted from the front, each once.

    Returns
    -------
    array of `x`'s dtype, without these dims
    """
    total: Array = np.sum(x, axis=dims)
    return total


def _sum_of_squares_over(x: Array, dims: Dims) -> Array:
    """As :func:`sum_over`, of ``x * x``."""
    total: Array = np.sum(x * x, axis=dims)
    return total


def _sum_of_sizes_over(x: Array, dims: Dims) -> Array:
    """As :func:`sum_over`, of ``|x|``."""
    total: Array = np.sum(np.abs(x), axis=dims)
    return total


def _sum_of_numbers_over(x: Array, dims: Dims) -> Array:
    """As :func:`sum_over`, with 0 in place of NaN."""
    total: Array = np.sum(np.where(np.isnan(x), 0.0, x), axis=dims)
    return total


def _largest_over(x: Array, dims: Dims) -> Array:
    """The largest element over some dims, as for :func:`sum_over`; NaN where there is one. None is empty."""
    largest: Array = np.max(x, axis=dims)
    return largest


def _smallest_over(x: Array, dims: Dims) -> Array:
    """The smallest element over some dims; see :func:`largest_over`."""
    smallest: Array = np.min(x, axis=dims)
    return smallest


def _product_over(x: Array, dims: Dims) -> Array:
    """The product over some dims, multiplied in double precision; see :func:`sum_over`."""
    product: Array = np.prod(x, axis=dims)
    return product


sum_over = Kernel(_sum_over, f"{_FUSED}:sum_over", arrays=1, least=LARGE)
sum_of_squares_over = Kernel(_sum_of_squares_over, f"{_FUSED}:sum_of_squares_over", arrays=1, least=LARGE)
sum_of_sizes_over = Kernel(_sum_of_sizes_over, f"{_FUSED}:sum_of_sizes_over", arrays=1, least=LARGE)
sum_of_numbers_over = Kernel(_sum_of_numbers_over, f"{_FUSED}:sum_of_numbers_over", arrays=1, least=LARGE)
product_over = Kernel(_product_over, f"{_FUSED}:product_over", arrays=1, least=LARGE)
largest_over = Kernel(_largest_over, f"{_EXTREME}:largest_over", arrays=1, least=LARGE)
smallest_over = Kernel(_smallest_over, f"{_EXTREME}:smallest_over", arrays=1, least=LARGE)
