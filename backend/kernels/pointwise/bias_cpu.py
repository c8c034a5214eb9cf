"""Fused addition of a row to many, for NumPy arrays; the formula is in ``bias.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["add_row"]


def add_row(x: Array, row: Array) -> Array:
    if not x.flags.c_contiguous or not row.size:
        return np.asarray(x + row)
    x, row = contiguous(x), contiguous(row)
    out = np.empty(x.shape, x.dtype)
    shape = (x.size // row.size, row.size)
    _add_row(x.reshape(shape), row.reshape(-1), out.reshape(shape))
    return out


@fused(lambda real: (read(real, 2), read(real, 1), write(real, 2)))
def _add_row(x: Array, row: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        source, target = x[i], out[i]
        for j in range(row.size):
            target[j] = source[j] + row[j]
