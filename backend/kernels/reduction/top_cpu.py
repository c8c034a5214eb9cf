"""Fused search for the top of rows, for NumPy arrays; the formula is in ``top.py``.

A heap keeps the k best so far, the worst of them at its root. Most elements are no better than that, and
cost one comparison. Compared are integers (sign folded), which order floats, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, boolean, device, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.reduction import top

__all__ = ["top_of_rows"]

_FEW, _SHARE = 2048, 4  # a heap of more, or of more than one element in so many, costs as much as a sort


def top_of_rows(rows: Array, k: int, largest: bool) -> Array:
    count, n = rows.shape
    if k * _SHARE > n or k > _FEW:
        return top.top_of_rows.plain(rows, k, largest)
    out = np.empty((count, k), np.int64)
    if out.size:
        _LOOPS[rows.dtype.char](contiguous(rows), out, largest)
    return out


@device()
def _sink(keys: Array, places: Array, hole: int, size: int, key: int, place: int) -> None:
    """Put an element into the heap at a hole or below: a child is never worse than its parent."""
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            keys[other] < keys[child] or (keys[other] == keys[child] and places[other] > places[child])
        ):
            child = other
        if key < keys[child] or (key == keys[child] and place > places[child]):
            break
        keys[hole] = keys[child]
        places[hole] = places[child]
        hole = child
    keys[hole] = key
    places[hole] = place


def _loop_for(integer: Any, real: Any, magnitude: int, infinity: int, sign: int) -> Callable[..., None]:
    size_bits, infinite, last, zero = integer(magnitude), integer(infinity), integer(sign), integer(0)
    minus_zero = integer(-1)  # folded

    @device()
    def key_of(x: float, largest: bool) -> int:
        bits = real(x).view(integer)
        folded = integer(bits ^ integer((bits >> last) & size_bits))
        folded = zero if folded == minus_zero else folded
        folded = size_bits if integer(bits & size_bits) > infinite else folded
        return folded if largest else integer(~folded)

    def loop(x: Array, out: Array, largest: bool) -> None:
        count, n = x.shape
        k = out.shape[1]
        keys, places = np.empty(k, integer), np.empty(k, np.int64)
        for i in range(count):
            row = x[i]
            for j in range(k):
                keys[j] = key_of(row[j], largest)
                places[j] = j
            for j in range(k // 2, 0, -1):
                _sink(keys, places, j - 1, k, keys[j - 1], places[j - 1])
            worst = keys[0]
            for j in range(k, n):
                key = key_of(row[j], largest)
                if key > worst:
                    _sink(keys, places, 0, k, key, j)
                    worst = keys[0]
            for left in range(k - 1, -1, -1):
                out[i, left] = places[0]
                _sink(keys, places, 0, left, keys[left], places[left])

    return loop


def _made(name: str, loop: Callable[..., None]) -> Fused:
    loop.__qualname__ = name  # by which it is kept on disk
    return Fused(loop, lambda real: (read(real, 2), write(int64, 2), boolean), exact=True)


_LOOPS = {
    "f": _made("top.f", _loop_for(np.int32, np.float32, 0x7FFFFFFF, 0x7F800000, 31)),
    "d": _made("top.d", _loop_for(np.int64, np.float64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, 63)),
}
