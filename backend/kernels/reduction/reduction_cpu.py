"""Fused sums for NumPy arrays; the formulas are in ``reduction.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, contiguous

__all__ = ["column_sum", "sum_of_squares"]

# Rows that are added up in the arrays' precision before they join a total in double precision, so that
# rounding errors do not grow with the number of rows.
_BLOCK = 128


def sum_of_squares(x: Array) -> Array:
    x = contiguous(x)
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    total = np.empty(1, np.float64)
    _sum_of_squares(x.reshape(-1), total)
    return total.reshape(())


def column_sum(g: Array) -> Array:
    rows = as_rows(g)
    total = np.empty(rows.shape[1], g.dtype)
    _column_sum(rows, total)
    return total


@fused(lambda real: (read(real, 1), write(float64, 1)))
def _sum_of_squares(x: Array, total: Array) -> None:
    result = 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        result += value * value
    total[0] = result


@fused(lambda real: (read(real, 2), write(real, 1)))
def _column_sum(g: Array, total: Array) -> None:
    real = g.dtype.type
    rows, columns = g.shape
    part, whole = np.empty(columns, g.dtype), np.zeros(columns, np.float64)
    for start in range(0, rows, _BLOCK):
        part[:] = real(0)
        for i in range(start, min(start + _BLOCK, rows)):
            row = g[i]
            for j in range(columns):
                part[j] += row[j]
        for j in range(columns):
            whole[j] += part[j]
    for j in range(columns):
        total[j] = real(whole[j])
