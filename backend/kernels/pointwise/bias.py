"""One row added to many, as a bias is: NumPy calls its loop anew for every row."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["WIDE", "add_row"]

WIDE = 1 << 15
"""Elements from which the fused version is taken."""


def _add_row(x: Array, row: Array) -> Array:
    """``x + row``, where the last dims of `x` are those of `row`.

    Parameters
    ----------
    x : floating array, shape (..., *row.shape)
    row : array of at least one dim
    """
    return x + row


add_row = Kernel(_add_row, "shardwise.backend.kernels.pointwise.bias_cpu:add_row", arrays=2, least=WIDE)
