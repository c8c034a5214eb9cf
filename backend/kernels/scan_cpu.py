"""Fused running sums, products and extremes for NumPy arrays; the formulas are in ``scan.py``.

A step waits for the one before it. So four rows are gone through at once, which keeps the units busy; where
elements lie behind those of the dim, all of them are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.contiguous import contiguous
from shardwise.backend.kernels.jit import Fused, NumbaType, device, fused, int64, read, write

__all__ = [
    "product_backward", "running_largest", "running_product", "running_product_backward", "running_smallest",
    "running_sum",
]  # fmt: skip


def running_sum(x: Array, dim: int) -> Array:
    return _scanned(x, dim, _SUMS)


def running_product(x: Array, dim: int) -> Array:
    return _scanned(x, dim, _PRODUCTS)


def running_product_backward(g: Array, x: Array, dim: int) -> Array:
    if g.shape != x.shape:
        raise ShapeError(
            f"running_product_backward: the gradient has shape {g.shape}, and the input {x.shape}; "
            "wanted the same."
        )
    shape = _around(x.shape, dim)
    dx = np.empty(x.shape, x.dtype)
    g, x, out = contiguous(g).reshape(shape), contiguous(x).reshape(shape), dx.reshape(shape)
    if shape[2] == 1:
        _product_backward_of_rows(g[:, :, 0], x[:, :, 0], out[:, :, 0])
    else:
        _product_backward_of_columns(g, x, out)
    return dx


def product_backward(g: Array, x: Array) -> Array:
    x = contiguous(x)
    dx = np.empty(x.shape, x.dtype)
    _product_backward(contiguous(g), x, dx)
    return dx


def running_largest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extremes(x, dim, _LARGEST)


def running_smallest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extremes(x, dim, _SMALLEST)


def _around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def _scanned(x: Array, dim: int, loops: tuple[Fused, Fused]) -> Array:
    shape, out = _around(x.shape, dim), np.empty(x.shape, x.dtype)
    source, target = contiguous(x).reshape(shape), out.reshape(shape)
    if shape[2] == 1:
        loops[0](source[:, :, 0], target[:, :, 0])
    else:
        loops[1](source, target)
    return out


def _extremes(x: Array, dim: int, loops: tuple[Fused, Fused]) -> tuple[Array, Array]:
    shape = _around(x.shape, dim)
    values, indices = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    arrays = contiguous(x).reshape(shape), values.reshape(shape), indices.reshape(shape)
    if not x.size:
        return values, indices
    if shape[2] == 1:
        loops[0](*(array[:, :, 0] for array in arrays))
    else:
        loops[1](*arrays)
    return values, indices


@device()
def _plus(x: float, y: float) -> float:
    return x + y


@device()
def _times(x: float, y: float) -> float:
    return x * y


@device()
def _not_below(x: float, y: float) -> bool:
    return (x >= y) & (y == y) | (x != x)


@device()
def _not_above(x: float, y: float) -> bool:
    return (x <= y) & (y == y) | (x != x)


@device()
def _better_of(better: Any, new: float, place: int, old: float, old_place: int) -> tuple[float, int]:
    taken = better(new, old)
    return (new if taken else old), (place if taken else old_place)


Loop = Callable[..., None]


def _totals_of_rows(f: Any, start: float) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        rows, count = x.shape
        for i in range(0, rows - 3, 4):
            a = b = c = d = start
            for j in range(count):
                a = f(a, x[i, j])
                b = f(b, x[i + 1, j])
                c = f(c, x[i + 2, j])
                d = f(d, x[i + 3, j])
                out[i, j] = real(a)
                out[i + 1, j] = real(b)
                out[i + 2, j] = real(c)
                out[i + 3, j] = real(d)
        for i in range(rows - rows % 4, rows):
            a = start
            for j in range(count):
                a = f(a, x[i, j])
                out[i, j] = real(a)

    return loop


def _totals_of_columns(f: Any, start: float) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        total = np.empty(x.shape[2], np.float64)
        for o in range(x.shape[0]):
            total[:] = start
            for i in range(x.shape[1]):
                row, totals = x[o, i], out[o, i]
                for j in range(row.size):
                    total[j] = f(total[j], row[j])
                    totals[j] = real(total[j])

    return loop


def _extremes_of_rows(better: Any) -> Loop:
    def loop(x: Array, values: Array, indices: Array) -> None:
        rows, count = x.shape
        for i in range(0, rows - 3, 4):
            a, b, c, d = x[i, 0], x[i + 1, 0], x[i + 2, 0], x[i + 3, 0]
            at_a = at_b = at_c = at_d = 0
            for j in range(count):
                a, at_a = _better_of(better, x[i, j], j, a, at_a)
                b, at_b = _better_of(better, x[i + 1, j], j, b, at_b)
                c, at_c = _better_of(better, x[i + 2, j], j, c, at_c)
                d, at_d = _better_of(better, x[i + 3, j], j, d, at_d)
                values[i, j], indices[i, j] = a, at_a
                values[i + 1, j], indices[i + 1, j] = b, at_b
                values[i + 2, j], indices[i + 2, j] = c, at_c
                values[i + 3, j], indices[i + 3, j] = d, at_d
        for i in range(rows - rows % 4, rows):
            a, at_a = x[i, 0], 0
            for j in range(count):
                a, at_a = _better_of(better, x[i, j], j, a, at_a)
                values[i, j], indices[i, j] = a, at_a

    return loop


def _extremes_of_columns(better: Any) -> Loop:
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


def _made(name: str, loop: Loop, types: Callable[[NumbaType], tuple[NumbaType, ...]]) -> Fused:
    loop.__qualname__ = name  # by which it is kept on disk
    return Fused(loop, types, exact=False)


def _pair(name: str, f: Any, start: float) -> tuple[Fused, Fused]:
    return (
        _made(f"{name}.rows", _totals_of_rows(f, start), lambda real: (read(real, 2), write(real, 2))),
        _made(f"{name}.columns", _totals_of_columns(f, start), lambda real: (read(real, 3), write(real, 3))),
    )


def _extreme_pair(name: str, better: Any) -> tuple[Fused, Fused]:
    return (
        _made(
            f"{name}.rows",
            _extremes_of_rows(better),
            lambda real: (read(real, 2), write(real, 2), write(int64, 2)),
        ),
        _made(
            f"{name}.columns",
            _extremes_of_columns(better),
            lambda real: (read(real, 3), write(real, 3), write(int64, 3)),
        ),
    )


_SUMS, _PRODUCTS = _pair("sums", _plus, 0.0), _pair("products", _times, 1.0)
_LARGEST, _SMALLEST = _extreme_pair("largest", _not_below), _extreme_pair("smallest", _not_above)


@fused(lambda real: (read(real, 2), read(real, 2), write(real, 2)))
def _product_backward_of_rows(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    rows, count = x.shape
    sums = np.empty(count, np.float64)
    for i in range(rows):
        gradient, row, out = g[i], x[i], dx[i]
        r = 0.0
        for k in range(count):
            back = np.uint64(count - 1 - k)
            r = gradient[back] + r
            sums[back] = r
            r *= row[back]
        product = 1.0
        for j in range(count):
            out[j] = real(product * sums[j])
            product *= row[j]


@fused(lambda real: (read(real, 3), read(real, 3), write(real, 3)))
def _product_backward_of_columns(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    outer, count, inner = x.shape
    sums, total = np.empty((count, inner), np.float64), np.empty(inner, np.float64)
    for o in range(outer):
        total[:] = 0.0
        for k in range(count):
            i = count - 1 - k
            gradient, row, kept = g[o, i], x[o, i], sums[i]
            for j in range(inner):
                r = gradient[j] + total[j]
                kept[j] = r
                total[j] = r * row[j]
        total[:] = 1.0
        for i in range(count):
            row, out, kept = x[o, i], dx[o, i], sums[i]
            for j in range(inner):
                out[j] = real(total[j] * kept[j])
                total[j] *= row[j]


@fused(lambda real: (read(real, 1), read(real, 2), write(real, 2)))
def _product_backward(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    rows, count = x.shape
    before, behind = np.empty(count, np.float64), np.empty(count, np.float64)
    for i in range(rows):
        row, out, weight = x[i], dx[i], np.float64(g[i])
        first = last = 1.0
        for j in range(count):  # both ways at once, since each step waits for the one before it
            k = np.uint64(count - 1 - j)  # unsigned, so that it is not looked at for counting from the end
            before[j] = first
            behind[k] = last
            first *= np.float64(row[j])
            last *= np.float64(row[k])
        for j in range(count):
            out[j] = real(before[j] * behind[j] * weight)
