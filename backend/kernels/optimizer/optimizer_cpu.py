"""Fused updates of many contiguous NumPy arrays in one call; the formulas are in ``optimizer_formula.py``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numba
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, device, int64, read
from shardwise.backend.kernels.memory.address_cpu import addresses, pointer

__all__ = ["update_each"]

Formula = Callable[..., tuple[Array, ...]]


def update_each(
    formula: Formula, columns: Sequence[Sequence[Array]], numbers: Sequence[tuple[float, ...]]
) -> None:
    params = columns[0]
    first = numbers[0]
    if all(row is first for row in numbers):  # as good as always: parameters take their steps together
        rows, row_of = [first], np.zeros(len(params), np.int64)
    else:
        rows, row_of = list(numbers), np.arange(len(params))
    with np.errstate(over="ignore"):
        table = np.array(rows, params[0].dtype)
    places = np.array([addresses(column) for column in columns])
    sizes = np.fromiter([array.size for array in params], np.int64, len(params))
    _compiled(formula, len(columns))(table, row_of, places, sizes)


@functools.cache
def _compiled(formula: Formula, arrays: int) -> Fused:
    """Return the loop over parameters and elements, with the formula in it."""
    count = len(inspect.signature(formula).parameters) - arrays
    loop = _LOOPS[arrays](device()(formula), count)
    loop.__qualname__ = f"update_each_{formula.__name__}"  # the name of the compiled code on disk
    return Fused(
        loop, lambda real: (read(real, 2), read(int64, 1), read(int64, 2), read(int64, 1)), exact=False
    )


def _two(formula: Formula, count: int) -> Callable[..., None]:
    def loop(table: Array, row_of: Array, places: Array, sizes: Array) -> None:
        for i in range(sizes.size):
            row, size = to_fixed_tuple(table[row_of[i]], count), sizes[i]
            p = numba.carray(pointer(places[0, i], table), size)
            g = numba.carray(pointer(places[1, i], table), size)
            for j in range(size):
                (p[j],) = formula(p[j], g[j], *row)

    return loop


def _three(formula: Formula, count: int) -> Callable[..., None]:
    def loop(table: Array, row_of: Array, places: Array, sizes: Array) -> None:
        for i in range(sizes.size):
            row, size = to_fixed_tuple(table[row_of[i]], count), sizes[i]
            p = numba.carray(pointer(places[0, i], table), size)
            g = numba.carray(pointer(places[1, i], table), size)
            a = numba.carray(pointer(places[2, i], table), size)
            for j in range(size):
                p[j], a[j] = formula(p[j], g[j], a[j], *row)

    return loop


def _four(formula: Formula, count: int) -> Callable[..., None]:
    def loop(table: Array, row_of: Array, places: Array, sizes: Array) -> None:
        for i in range(sizes.size):
            row, size = to_fixed_tuple(table[row_of[i]], count), sizes[i]
            p = numba.carray(pointer(places[0, i], table), size)
            g = numba.carray(pointer(places[1, i], table), size)
            a = numba.carray(pointer(places[2, i], table), size)
            b = numba.carray(pointer(places[3, i], table), size)
            for j in range(size):
                p[j], a[j], b[j] = formula(p[j], g[j], a[j], b[j], *row)

    return loop


def _five(formula: Formula, count: int) -> Callable[..., None]:
    def loop(table: Array, row_of: Array, places: Array, sizes: Array) -> None:
        for i in range(sizes.size):
            row, size = to_fixed_tuple(table[row_of[i]], count), sizes[i]
            p = numba.carray(pointer(places[0, i], table), size)
            g = numba.carray(pointer(places[1, i], table), size)
            a = numba.carray(pointer(places[2, i], table), size)
            b = numba.carray(pointer(places[3, i], table), size)
            c = numba.carray(pointer(places[4, i], table), size)
            for j in range(size):
                p[j], a[j], b[j], c[j] = formula(p[j], g[j], a[j], b[j], c[j], *row)

    return loop


_LOOPS = {2: _two, 3: _three, 4: _four, 5: _five}
