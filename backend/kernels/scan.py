"""Running sums along a dim."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["running_sum"]


def _running_sum(x: Array, dim: int) -> Array:
    """The sums of the elements up to each along a dim, added up in double precision.

    Parameters
    ----------
    x : floating array, any shape
    dim : int
        Counted from the front.

    Returns
    -------
    array of `x`'s shape and dtype
    """
    return np.cumsum(x, axis=dim, dtype=np.float64).astype(x.dtype)


running_sum = Kernel(
    _running_sum,
    "shardwise.backend.kernels.scan_cpu:running_sum",
    arrays=1,
    cuda="shardwise.backend.kernels.scan_cuda:running_sum",
)
