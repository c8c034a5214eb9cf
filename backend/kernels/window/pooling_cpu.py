"""Fused pooling for NumPy arrays, in up to three dims; the formulas are in ``pooling.py``."""

from __future__ import annotations

import functools

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.jit import fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.window.pooling import Counts, Windows

__all__ = ["average_backward", "average_forward", "maximum_backward", "maximum_forward"]


@functools.lru_cache(256)
def _plan(windows: Windows, counts: Counts) -> tuple[Array, Array]:
    """How many places there are per dim, in three dims; and start, stop, step and count of each."""
    lead = 3 - len(windows)
    ranges = ((range(1),),) * lead + windows
    numbers = ((1,),) * lead + counts
    lengths = np.array([len(dim) for dim in ranges], np.int64)
    table = [
        (seen.start, seen.stop, seen.step, count)
        for dim, divisors in zip(ranges, numbers, strict=True)
        for seen, count in zip(dim, divisors, strict=True)
    ]
    return lengths, np.array(table, np.int64).reshape(-1, 4)


def _sizes(size: Shape) -> Array:
    return np.array([1] * (3 - len(size)) + list(size), np.int64)


def average_forward(x: Array, windows: Windows, counts: Counts) -> Array:
    out = np.empty((*x.shape[:2], *map(len, windows)), x.dtype)
    lengths, table = _plan(windows, counts)
    if out.size:
        _average(contiguous(x).reshape(-1), out.reshape(-1), _sizes(x.shape[2:]), lengths, table)
    return out


def average_backward(g: Array, windows: Windows, counts: Counts, size: Shape) -> Array:
    dx = np.zeros((*g.shape[:2], *size), g.dtype)
    lengths, table = _plan(windows, counts)
    if g.size:
        _spread(contiguous(g).reshape(-1), dx.reshape(-1), _sizes(size), lengths, table)
    return dx


def maximum_forward(x: Array, windows: Windows) -> tuple[Array, Array]:
    out = np.empty((*x.shape[:2], *map(len, windows)), x.dtype)
    places = np.empty(out.shape, np.int64)
    lengths, table = _plan(windows, tuple((1,) * len(dim) for dim in windows))
    if out.size:
        planes = contiguous(x).reshape(-1)
        _maximum(planes, out.reshape(-1), places.reshape(-1), _sizes(x.shape[2:]), lengths, table)
    return out, places


def maximum_backward(g: Array, places: Array, size: Shape) -> Array:
    dx = np.zeros((*g.shape[:2], *size), g.dtype)
    planes = g.shape[0] * g.shape[1]
    if g.size:
        index = contiguous(places.astype(np.int64, copy=False)).reshape(planes, -1)
        _scatter(contiguous(g).reshape(planes, -1), index, dx.reshape(planes, -1))
    return dx


@fused(lambda real: (read(real, 1), write(real, 1), read(int64, 1), read(int64, 1), read(int64, 2)))
def _average(x: Array, out: Array, sizes: Array, lengths: Array, table: Array) -> None:
    real = x.dtype.type
    od, oh, ow = lengths[0], lengths[1], lengths[2]
    depth, height, width = sizes[0], sizes[1], sizes[2]
    sums = np.empty(width, x.dtype)  # of all rows that an output row sees: the longest loops go along rows
    for at in range(out.size // ow):
        plane, a, b = at // (od * oh), at // oh % od, od + at % oh
        sums[:] = real(0)
        for z in range(table[a, 0], table[a, 1], table[a, 2]):
            for y in range(table[b, 0], table[b, 1], table[b, 2]):
                start = ((plane * depth + z) * height + y) * width
                source = x[start : start + width]
                for p in range(width):
                    sums[p] += source[p]
        row, count = out[at * ow : (at + 1) * ow], table[a, 3] * table[b, 3]
        for o in range(ow):
            c = od + oh + o
            total = real(0)
            for p in range(table[c, 0], table[c, 1], table[c, 2]):
                total += sums[p]
            row[o] = total / real(count * table[c, 3])


@fused(lambda real: (read(real, 1), write(real, 1), read(int64, 1), read(int64, 1), read(int64, 2)))
def _spread(g: Array, dx: Array, sizes: Array, lengths: Array, table: Array) -> None:
    real = g.dtype.type
    od, oh, ow = lengths[0], lengths[1], lengths[2]
    depth, height, width = sizes[0], sizes[1], sizes[2]
    shares = np.empty(width, g.dtype)
    for at in range(g.size // ow):
        plane, a, b = at // (od * oh), at // oh % od, od + at % oh
        shares[:] = real(0)
        row, count = g[at * ow : (at + 1) * ow], table[a, 3] * table[b, 3]
        for o in range(ow):
            c = od + oh + o
            share = row[o] / real(count * table[c, 3])
            for p in range(table[c, 0], table[c, 1], table[c, 2]):
                shares[p] += share
        for z in range(table[a, 0], table[a, 1], table[a, 2]):
            for y in range(table[b, 0], table[b, 1], table[b, 2]):
                start = ((plane * depth + z) * height + y) * width
                target = dx[start : start + width]
                for p in range(width):
                    target[p] += shares[p]


@fused(
    lambda real: (
        *(read(real, 1), write(real, 1), write(int64, 1)),
        *(read(int64, 1), read(int64, 1), read(int64, 2)),
    )
)
def _maximum(x: Array, out: Array, places: Array, sizes: Array, lengths: Array, table: Array) -> None:
    od, oh, ow = lengths[0], lengths[1], lengths[2]
    depth, height, width = sizes[0], sizes[1], sizes[2]
    best, rows = np.empty(width, x.dtype), np.empty(width, np.int32)
    for at in range(out.size // ow):
        plane, a, b = at // (od * oh), at // oh % od, od + at % oh
        begin, first = plane * depth * height * width, table[a, 0] * height + table[b, 0]
        source = x[begin + first * width : begin + (first + 1) * width]
        for p in range(width):
            best[p] = source[p]
            rows[p] = first
        for z in range(table[a, 0], table[a, 1], table[a, 2]):
            for y in range(table[b, 0], table[b, 1], table[b, 2]):
                number = np.int32(z * height + y)
                source = x[begin + number * width : begin + (number + 1) * width]
                for p in range(width):
                    value, old = source[p], best[p]
                    better = (value > old) | ((value != value) & (old == old))
                    best[p] = value if better else old
                    rows[p] = number if better else rows[p]
        for o in range(ow):
            c = od + oh + o
            found = table[c, 0]
            for p in range(table[c, 0], table[c, 1], table[c, 2]):
                value, old = best[p], best[found]
                same = (value == old) | ((value != value) & (old != old))
                # Of equals the first row goes first. Without branches, which would be guessed wrong.
                better = (value > old) | ((value != value) & (old == old)) | (same & (rows[p] < rows[found]))
                found = p if better else found
            out[at * ow + o] = best[found]
            places[at * ow + o] = np.int64(rows[found]) * width + found


@fused(lambda real: (read(real, 2), read(int64, 2), write(real, 2)))
def _scatter(g: Array, places: Array, dx: Array) -> None:
    for i in range(g.shape[0]):
        row, index, out = g[i], places[i], dx[i]
        for j in range(row.size):
            out[index[j]] += row[j]
