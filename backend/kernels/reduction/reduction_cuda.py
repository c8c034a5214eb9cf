"""CUDA sums; the formulas are in ``reduction.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Launcher,
    columns,
    contiguous,
    each,
    empty,
    matrix,
    parts,
    wide,
)

__all__ = ["add_parts", "column_sum", "launch", "sum_of_squares"]

launch = Launcher(DeviceSource("reduction/reduction.cu"))

_MOST_SUMS = 4096  # which one block then adds up
_MOST_BLOCKS = 1 << 20


def sum_of_squares(x: Array) -> Array:
    x = contiguous(x)
    (blocks,), threads = each(x.size, x.itemsize)
    blocks = min(blocks, _MOST_SUMS)
    sums, total = empty(x, (blocks,), np.float64), empty(x, (), np.float64)
    launch("sum_of_squares", x.dtype, ((blocks,), threads), x, sums, x.size)
    launch("sum_all", x.dtype, ((1,), (1024,)), sums, total, blocks)
    return total


def column_sum(g: Array) -> Array:
    g, count, many = matrix(g)
    sums = empty(g, (parts(count), many), wide(g.dtype))
    launch("sum_rows_once", g.dtype, columns(count, many), g, sums, count, many)
    return add_parts(sums, 1, 0, 1.0, many, g.dtype)


def add_parts(sums: Array, step: int, first: int, factor: float, many: int, dtype: DTypeLike) -> Array:
    """Add up the rows of `sums` in double precision.

    Parameters
    ----------
    sums : array, shape (parts, many * step)
        Contiguous.
    step, first : int
        Of every `step` columns, number `first` counts.
    factor : float
        Multiplies the result.
    many : int
    dtype : dtype
        Of the result.

    Returns
    -------
    array, shape (many,)
    """
    total = empty(sums, (many,), dtype)
    count, lanes = sums.shape[0], 1
    while lanes < 32 and lanes < count:
        lanes *= 2
    sizes = (min(-(-many // 32), _MOST_BLOCKS),), (32, lanes)
    launch("add_parts", dtype, sizes, sums, step, first, factor, total, count, many)
    return total
