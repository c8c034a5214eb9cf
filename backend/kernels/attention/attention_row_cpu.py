"""What attention does to the rows of queries, keys and values, compiled.

Arrays of the caller are views of four dims, of which the first two are the last two leading dims of the
attention and the last is contiguous; their rows are found by address. Heads come innermost in the loops
over them: after a projection they lie side by side in memory, and memory is fast only in order.
"""

from __future__ import annotations

import numba

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import (
    device,
    float64,
    fused,
    int64,
    read,
    read_strided,
    write,
    write_strided,
)
from shardwise.backend.kernels.memory.address_cpu import pointer

__all__ = ["add_rows_", "add_weighted_", "copy_rows_", "finish_", "prepare_"]


@device()
def _row(x: Array, b: int, h: int, i: int) -> Array:
    """Row (b, h, i) of an array of four dims, whose last is contiguous."""
    place = x.ctypes.data + b * x.strides[0] + h * x.strides[1] + i * x.strides[2]
    return numba.carray(pointer(place, x), x.shape[3])


@fused(lambda real: (read_strided(real, 4), write(real, 4)))
def copy_rows_(x: Array, out: Array) -> None:
    """Copy rows to where they lie side by side."""
    outer, inner, length, features = x.shape
    for b in range(outer):
        for i in range(length):
            for h in range(inner):
                row, place = _row(x, b, h, i), out[b, h, i]
                for f in range(features):
                    place[f] = row[f]


@fused(lambda real: (write(real, 3), read(real, 3), read(real, 2)))
def add_weighted_(sums: Array, more: Array, decay: Array) -> None:
    """``sums * decay + more``, in place; `decay` has no features."""
    count, queries, features = sums.shape
    for b in range(count):
        for i in range(queries):
            row, addend, factor = sums[b, i], more[b, i], decay[b, i]
            for f in range(features):
                row[f] = row[f] * factor + addend[f]


@fused(lambda real: (write(real, 4), read(real, 4), int64))
def add_rows_(sums: Array, more: Array, start: int) -> None:
    """Add rows to those from `start` on, of each matrix, or of all of an outer one to the only one there."""
    outer, inner, keys, features = more.shape
    size = keys * features
    for b in range(outer):
        for h in range(inner):
            place = b * sums.strides[0] + start * sums.strides[2]
            if sums.shape[1] > 1:
                place += h * sums.strides[1]
            total = numba.carray(pointer(sums.ctypes.data + place, sums), size)
            addend = more[b, h].reshape(size)
            for f in range(size):
                total[f] += addend[f]


@fused(
    lambda real: (
        *(read(real, n) for n in (4, 3, 3)), *(write_strided(real, n) for n in (4, 3, 3)), float64
    )
)  # fmt: skip
def finish_(sums: Array, top: Array, total: Array, y: Array, peak: Array, share: Array, scale: float) -> None:
    """Write the averages, and what the backward needs to make the same weights again."""
    real = sums.dtype.type
    zero, factor = real(0), real(scale)
    outer, inner, queries, features = sums.shape
    for b in range(outer):
        for i in range(queries):
            for h in range(inner):
                row, out = sums[b, h, i], _row(y, b, h, i)
                blind = total[b, h, i] == zero
                portion = zero if blind else real(1) / total[b, h, i]
                peak[b, h, i] = zero if blind else top[b, h, i]
                share[b, h, i] = portion
                portion *= factor
                for f in range(features):
                    out[f] = zero if blind else row[f] * portion


@fused(
    lambda real: (
        *(read_strided(real, n) for n in (4, 4, 3, 3)), *(write(real, n) for n in (4, 3, 3)), float64
    )
)  # fmt: skip
def prepare_(
    g: Array, y: Array, peak: Array, share: Array, shares: Array, top: Array, along: Array, scale: float
) -> None:
    """Give each query's gradient its share of the sum of weights; sum gradients times averages."""
    real = g.dtype.type
    factor = real(scale)
    outer, inner, queries, features = g.shape
    for b in range(outer):
        for i in range(queries):
            for h in range(inner):
                row, average, out = _row(g, b, h, i), _row(y, b, h, i), shares[b, h, i]
                portion = share[b, h, i]
                top[b, h, i] = peak[b, h, i]
                total = real(0)
                for f in range(features):
                    total += row[f] * average[f]
                along[b, h, i] = total * portion
                portion *= factor
                for f in range(features):
                    out[f] = row[f] * portion
