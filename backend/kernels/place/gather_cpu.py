"""Fused gathering and scattering of elements for NumPy arrays; the formulas are in ``gather.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["gather_along", "scatter_along"]


def gather_along(x: Array, index: Array, negative: bool = False) -> Array:
    out = np.empty(index.shape, x.dtype)
    lowest = -x.shape[1] if negative else 0
    if index.shape[2] == 1:
        fits = _gather_rows(_rows(contiguous(x)), _rows(_places(index)), lowest, _rows(out))
    else:
        fits = _gather(contiguous(x), _places(index), lowest, out)
    if not fits:
        raise IndexError("an index is out of range")
    return out


def scatter_along(g: Array, index: Array, size: int) -> Array:
    out = np.zeros((g.shape[0], size, g.shape[2]), g.dtype)
    if index.shape[2] == 1:
        fits = _scatter_rows(_rows(contiguous(g)), _rows(_places(index)), _rows(out))
    else:
        fits = _scatter(contiguous(g), _places(index), out)
    if not fits:
        raise IndexError("an index is out of range")
    return out


def _rows(x: Array) -> Array:
    """Let go of the last dim, which has one element: the inner loop is then the long one."""
    return x.reshape(x.shape[:2])


def _places(index: Array) -> Array:
    return contiguous(index.astype(np.int64, copy=False))


@fused(lambda real: (read(real, 3), read(int64, 3), int64, write(real, 3)))
def _gather(x: Array, index: Array, lowest: int, out: Array) -> bool:
    size, fits = x.shape[1], True
    for o in range(index.shape[0]):
        for i in range(index.shape[1]):
            for j in range(index.shape[2]):
                place = index[o, i, j]
                if lowest <= place < size:
                    out[o, i, j] = x[o, place + size if place < 0 else place, j]
                else:
                    fits = False
    return fits


@fused(lambda real: (read(real, 2), read(int64, 2), int64, write(real, 2)))
def _gather_rows(x: Array, index: Array, lowest: int, out: Array) -> bool:
    size, fits = x.shape[1], True
    for o in range(index.shape[0]):
        row, places, result = x[o], index[o], out[o]
        for i in range(places.size):
            place = places[i]
            if lowest <= place < size:
                result[i] = row[place + size if place < 0 else place]
            else:
                fits = False
    return fits


@fused(lambda real: (read(real, 3), read(int64, 3), write(real, 3)))
def _scatter(g: Array, index: Array, out: Array) -> bool:
    size, fits = out.shape[1], True
    for o in range(index.shape[0]):
        for i in range(index.shape[1]):
            for j in range(index.shape[2]):
                place = index[o, i, j]
                if -size <= place < size:
                    out[o, place + size if place < 0 else place, j] += g[o, i, j]
                else:
                    fits = False
    return fits


@fused(lambda real: (read(real, 2), read(int64, 2), write(real, 2)))
def _scatter_rows(g: Array, index: Array, out: Array) -> bool:
    size, fits = out.shape[1], True
    for o in range(index.shape[0]):
        row, places, total = g[o], index[o], out[o]
        here, some = 0, total.dtype.type(0)  # what follows for the same place waits for no memory
        for i in range(places.size):
            place = places[i]
            if not -size <= place < size:
                fits = False
                continue
            place = place + size if place < 0 else place
            if place != here:
                total[here] = some
                here, some = place, total[place]
            some += row[i]
        if size:
            total[here] = some
    return fits
