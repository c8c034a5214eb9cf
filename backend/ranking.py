"""The stable order of the elements of a NumPy array along a dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array

__all__ = ["sorted_indices"]


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
