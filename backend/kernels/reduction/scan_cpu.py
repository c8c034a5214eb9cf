"""Fused running sums and products for NumPy arrays; the formulas are in ``scan.py``.

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
from shardwise.backend.kernels.jit import Fused, NumbaType, device, fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["product_backward", "running_product", "running_product_backward", "running_sum"]


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


@device()
def _plus(x: float, y: float) -> float:
    return x + y


@device()
def _times(x: float, y: float) -> float:
    return x * y


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


def _made(name: str, loop: Loop, types: Callable[[NumbaType], tuple[NumbaType, ...]]) -> Fused:
    loop.__qualname__ = name  # by which it is kept on disk
    return Fused(loop, types, exact=False)


def _pair(name: str, f: Any, start: float) -> tuple[Fused, Fused]:
    return (
        _made(f"{name}.rows", _totals_of_rows(f, start), lambda real: (read(real, 2), write(real, 2))),
        _made(f"{name}.columns", _totals_of_columns(f, start), lambda real: (read(real, 3), write(real, 3))),
    )


_SUMS, _PRODUCTS = _pair("sums", _plus, 0.0), _pair("products", _times, 1.0)


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
