"""Fused running sums for NumPy arrays; the formula is in ``scan.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.contiguous import contiguous
from shardwise.backend.kernels.jit import fused, read, write

__all__ = ["running_sum"]


def running_sum(x: Array, dim: int) -> Array:
    shape = (math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
    source, out = contiguous(x).reshape(shape), np.empty(x.shape, x.dtype)
    if shape[2] == 1:
        _along_rows(source.reshape(shape[:2]), out.reshape(shape[:2]))
    else:
        _along_columns(source, out.reshape(shape))
    return out


@fused(lambda real: (read(real, 2), write(real, 2)))
def _along_rows(x: Array, out: Array) -> None:
    # An addition waits for the one before it: four rows at once keep the adder busy.
    real = x.dtype.type
    rows, count = x.shape
    for i in range(0, rows - 3, 4):
        a = b = c = d = 0.0
        for j in range(count):
            a += x[i, j]
            b += x[i + 1, j]
            c += x[i + 2, j]
            d += x[i + 3, j]
            out[i, j] = real(a)
            out[i + 1, j] = real(b)
            out[i + 2, j] = real(c)
            out[i + 3, j] = real(d)
    for i in range(rows - rows % 4, rows):
        a = 0.0
        for j in range(count):
            a += x[i, j]
            out[i, j] = real(a)


@fused(lambda real: (read(real, 3), write(real, 3)))
def _along_columns(x: Array, out: Array) -> None:
    real = x.dtype.type
    total = np.empty(x.shape[2], np.float64)
    for o in range(x.shape[0]):
        total[:] = 0.0
        for i in range(x.shape[1]):
            row, sums = x[o, i], out[o, i]
            for j in range(row.size):
                total[j] += row[j]
                sums[j] = real(total[j])
