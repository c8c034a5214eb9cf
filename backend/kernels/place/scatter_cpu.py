"""Fused scattering of slices for NumPy arrays; the formula is in ``scatter.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous, integer_rows

__all__ = ["scatter_rows"]


def scatter_rows(g: Array, index: Array, size: int) -> Array:
    out = np.zeros((g.shape[0], size, g.shape[2]), g.dtype)
    _scatter(contiguous(g), integer_rows(index), out)
    return out


@fused(lambda real: (read(real, 3), read(int64, 1), write(real, 3)))
def _scatter(g: Array, index: Array, out: Array) -> None:
    for o in range(g.shape[0]):
        for i in range(index.size):
            row, total = g[o, i], out[o, index[i]]
            for j in range(row.size):
                total[j] += row[j]
