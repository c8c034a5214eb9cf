"""Taking elements along the middle of three dims, named one by one, and the adjoint of that."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["gather_along", "scatter_along"]


def _gather_along(x: Array, index: Array, negative: bool = False) -> Array:
    """Per place of `index`, the element of `x` that it names.

    Parameters
    ----------
    x : array, shape (outer, size, inner)
    index : integer array, shape (outer, n, inner)
    negative : bool, default False
        Whether negative indices count from the end.

    Returns
    -------
    array, shape (outer, n, inner)

    Raises
    ------
    IndexError
        If an index is out of range (on the CPU).
    """
    if not negative and isinstance(index, np.ndarray) and int(np.min(index, initial=0)) < 0:
        raise IndexError("an index is out of range")
    return np.take_along_axis(x, index, axis=1)


gather_along = Kernel(
    _gather_along,
    "shardwise.backend.kernels.place.gather_cpu:gather_along",
    arrays=2,
    integer="index",
    cuda="shardwise.backend.kernels.place.scatter_cuda:gather_along",
)


def _scatter_along(g: Array, index: Array, size: int) -> Array:
    """Add each element of `g` to the element of zeros that `index` names.

    Parameters
    ----------
    g : array, shape (outer, n, inner)
    index : integer array, shape (outer, n, inner)
        Negative ones count from the end.
    size : int

    Returns
    -------
    array, shape (outer, size, inner)
        Additions are made in the order of `index`.

    Raises
    ------
    IndexError
        If an index is out of range (on the CPU).
    """
    outer, _, inner = g.shape
    first = np.reshape(np.arange(outer, like=index), (outer, 1, 1))
    return special.scatter_add((outer, size, inner), (first, index, np.arange(inner, like=index)), g)


scatter_along = Kernel(
    _scatter_along,
    "shardwise.backend.kernels.place.gather_cpu:scatter_along",
    arrays=2,
    integer="index",
    cuda="shardwise.backend.kernels.place.scatter_cuda:scatter_along",
)
