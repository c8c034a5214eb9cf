"""Fused running extremes for NumPy arrays; the formulas are in ``scan.py``.

Along rows of float32, each element becomes an integer that grows with it and then with its place; the largest
of these so far says both how large and where. A step is one comparison, and ties and NaN need no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, device, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["running_largest", "running_smallest"]

Loop = Callable[..., None]

_SIGN, _MAGNITUDE, _NAN = np.int32(31), np.int32(0x7FFFFFFF), np.int32(0x7FFFFFFF)
_WORD, _PLACE = np.int64(32), np.int64(0xFFFFFFFF)


def running_largest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extremes(x, dim, _LARGEST)


def running_smallest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extremes(x, dim, _SMALLEST)


def _extremes(x: Array, dim: int, loops: tuple[Fused, Fused, Fused]) -> tuple[Array, Array]:
    shape = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    values, indices = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    arrays = contiguous(x).reshape(shape), values.reshape(shape), indices.reshape(shape)
    if not x.size:
        return values, indices
    if shape[2] > 1:
        loops[2](*arrays)
    else:
        loops[x.dtype != np.float32](*(array[:, :, 0] for array in arrays))
    return values, indices


@device()
def _up(order: np.int32) -> Any:
    return order


@device()
def _down(order: np.int32) -> Any:
    return ~order


def _single_rows(direction: Any) -> Loop:
    def loop(x: Array, values: Array, indices: Array) -> None:
        for i in range(x.shape[0]):
            row, value, index = x[i], values[i], indices[i]
            for j in range(row.size):
                bits = np.float32(row[j]).view(np.int32)
                order = np.int32(bits ^ np.int32((bits >> _SIGN) & _MAGNITUDE))
                order = np.int32(0) if row[j] == 0.0 else order  # the zeros are equal
                order = np.int32(direction(order))
                order = _NAN if row[j] != row[j] else order
                index[j] = (np.int64(order) << _WORD) | np.int64(j)
            best = index[0]
            for j in range(row.size):
                best = max(best, index[j])
                place = best & _PLACE
                index[j] = place
                value[j] = row[np.uint64(place)]

    return loop


@device()
def _not_below(x: float, y: float) -> bool:
    return (x >= y) & (y == y) | (x != x)


@device()
def _not_above(x: float, y: float) -> bool:
    return (x <= y) & (y == y) | (x != x)


def _rows(better: Any) -> Loop:
    def loop(x: Array, values: Array, indices: Array) -> None:
        for i in range(x.shape[0]):
            row, value, index = x[i], values[i], indices[i]
            best, place = row[0], 0
            for j in range(row.size):
                taken = better(row[j], best)
                best, place = (row[j] if taken else best), (j if taken else place)
                value[j], index[j] = best, place

    return loop


def _columns(better: Any) -> Loop:
    def loop(x: Array, values: Array, indices: Array) -> None:
        for o in range(x.shape[0]):
            for i in range(x.shape[1]):
                row, best, place = x[o, i], values[o, i], indices[o, i]
                if i == 0:
                    best[:] = row
                    place[:] = 0
                    continue
                before, place_before = values[o, i - 1], indices[o, i - 1]
                for j in range(row.size):
                    v, old, was = row[j], before[j], place_before[j]
                    new = better(v, old)
                    best[j] = v if new else old
                    place[j] = i if new else was

    return loop


def _compiled(name: str, loop: Loop, ndim: int) -> Fused:
    loop.__qualname__ = name  # by which it is kept on disk
    return Fused(loop, lambda real: (read(real, ndim), write(real, ndim), write(int64, ndim)), exact=True)


def _loops(name: str, direction: Any, better: Any) -> tuple[Fused, Fused, Fused]:
    """Return the loops for rows of float32, rows of others, and columns."""
    return (
        _compiled(f"{name}.single_rows", _single_rows(direction), 2),
        _compiled(f"{name}.rows", _rows(better), 2),
        _compiled(f"{name}.columns", _columns(better), 3),
    )


_LARGEST = _loops("largest", _up, _not_below)
_SMALLEST = _loops("smallest", _down, _not_above)
