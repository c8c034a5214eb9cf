"""The adjoint of taking slices along the middle of three dims by an array of integers."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["scatter_rows"]


def _scatter_rows(g: Array, index: Array, size: int) -> Array:
    """Add each slice of `g` to the slice of zeros that `index` names.

    Parameters
    ----------
    g : array, shape (outer, n, inner)
    index : integer array, shape (n,)
        In ``[0, size)``; the caller has made sure.
    size : int

    Returns
    -------
    array, shape (outer, size, inner)
        Additions are made in the order of `index`.
    """
    out = np.zeros((g.shape[0], size, g.shape[2]), g.dtype)
    if g.shape[0] == g.shape[2] == 1:
        np.add.at(out.reshape(-1), index, g.reshape(-1))  # NumPy is several times faster in one dim
    else:
        np.add.at(out, (slice(None), index), g)  # type: ignore[arg-type]  # NumPy's stubs leave tuples out
    return out


scatter_rows = Kernel(
    _scatter_rows,
    "shardwise.backend.kernels.place.scatter_cpu:scatter_rows",
    arrays=2,
    integer="index",
    cuda="shardwise.backend.kernels.place.scatter_cuda:scatter_rows",
)
