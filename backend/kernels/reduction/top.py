"""Where the k largest or smallest elements of each row are, without sorting all of them."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.ranking import sorted_indices

__all__ = ["top_indices_of", "top_of_rows"]

_PARTITIONED_FROM = 64  # elements of a row; below, a whole sort costs less
_LEAST = 1 << 14


def top_indices_of(a: Array, k: int, dim: int, largest: bool) -> Array:
    """As :func:`shardwise.backend.special.top_indices`, for NumPy arrays."""
    moved = np.moveaxis(a, dim, -1)
    n = a.shape[dim]
    if not n:
        return np.empty(a.shape[:dim] + (k,) + a.shape[dim + 1 :], np.int64)
    indices = top_of_rows(moved.reshape(-1, n), k, largest)
    return np.moveaxis(indices.reshape(*moved.shape[:-1], k), -1, dim)


def _top_of_rows(rows: Array, k: int, largest: bool) -> Array:
    """The indices of the `k` largest (or smallest) of each row, best first; of equals the first comes first.

    Parameters
    ----------
    rows : real array, shape (count, n)
        NaN counts as the largest.
    k : int
        From 0 to n.
    largest : bool

    Returns
    -------
    array of int64, shape (count, k)
    """
    count, n = rows.shape
    few = 0 < k <= n // 8 and n >= _PARTITIONED_FROM and count > 0
    if not few or (rows.dtype.kind == "f" and bool(np.isnan(rows).any())):
        return sorted_indices(rows, 1, largest)[:, :k]
    place = n - k if largest else k - 1
    edge = np.partition(rows, place, axis=1)[:, place, None]
    taken = rows >= edge if largest else rows <= edge
    if int(np.count_nonzero(taken)) > k * count:  # more elements equal the last than fit: the first
        better = rows > edge if largest else rows < edge
        equal = rows == edge
        room = k - np.count_nonzero(better, axis=1, keepdims=True)
        taken = better | (equal & (np.cumsum(equal, axis=1) <= room))
    indices = np.nonzero(taken)[1].reshape(count, k)  # ascending, so that a stable sort keeps ties in order
    values = np.take_along_axis(rows, indices, axis=1)
    return np.take_along_axis(indices, sorted_indices(values, 1, largest), axis=1)


top_of_rows = Kernel(
    _top_of_rows, "shardwise.backend.kernels.reduction.top_cpu:top_of_rows", arrays=1, least=_LEAST
)
