"""The k largest or smallest elements of a NumPy array along a dim, without sorting all of them."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array

__all__ = ["sorted_indices", "top_indices_of"]

_PARTITIONED_FROM = 64  # elements along the dim; below, a whole sort costs less


def sorted_indices(a: Array, dim: int, descending: bool) -> Array:
    """The stable order along `dim`, of arrays of any kind; NaN counts as the largest.

    Parameters
    ----------
    a : array
    dim : int
        Counted from the front.
    descending : bool
        Largest first; ties stay in the order of their indices all the same.

    Returns
    -------
    array of int64, shape of `a`
    """
    if not descending:
        return np.argsort(a, axis=dim, kind="stable")
    backwards = (slice(None),) * dim + (slice(None, None, -1),)
    order: Array = np.argsort(a[backwards], axis=dim, kind="stable")
    mirrored: Array = a.shape[dim] - 1 - order[backwards]
    return mirrored


def top_indices_of(a: Array, k: int, dim: int, largest: bool) -> Array:
    """As :func:`shardwise.backend.special.top_indices`, for NumPy arrays."""
    n = a.shape[dim]
    few = 0 < k <= n // 8 and n >= _PARTITIONED_FROM and a.size > 0
    if not few or (a.dtype.kind == "f" and bool(np.isnan(a).any())):
        return sorted_indices(a, dim, largest)[(slice(None),) * dim + (slice(0, k),)]
    rows = np.moveaxis(a, dim, -1)
    place = n - k if largest else k - 1
    edge = np.partition(rows, place, axis=-1)[..., place, None]
    taken = rows >= edge if largest else rows <= edge
    if int(np.count_nonzero(taken)) > k * (a.size // n):  # more elements equal the last than fit: the first
        better = rows > edge if largest else rows < edge
        equal = rows == edge
        room = k - np.count_nonzero(better, axis=-1, keepdims=True)
        taken = better | (equal & (np.cumsum(equal, axis=-1) <= room))
    shape = (*rows.shape[:-1], k)
    indices = np.nonzero(taken)[-1].reshape(shape)  # ascending, so that a stable sort keeps ties in order
    values = np.take_along_axis(rows, indices, axis=-1)
    order = sorted_indices(values, values.ndim - 1, largest)
    return np.moveaxis(np.take_along_axis(indices, order, axis=-1), -1, dim)
