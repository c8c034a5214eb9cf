"""Fused updates of many contiguous NumPy arrays in one call; the formulas are in ``optimizer_formula.py``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numba
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, device, int64, read
from shardwise.backend.kernels.memory.address_cpu import addresses, pointer
from shardwise.backend.kernels.memory.turn_cpu import apart, piece, pieces, places_for

__all__ = ["update_each"]

Formula: TypeAlias = Callable[..., tuple[Array, ...]]
Part: TypeAlias = Callable[[Array, Array, int, int, tuple[float, ...]], None]


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
    loop = _loop(_PARTS[arrays](device()(formula)), count, places_for(arrays))
    loop.__qualname__ = f"update_each_{formula.__name__}"  # the name of the compiled code on disk
    return Fused(
        loop, lambda real: (read(real, 2), read(int64, 1), read(int64, 2), read(int64, 1)), exact=False
    )


def _loop(part: Part, count: int, places: int) -> Callable[..., None]:
    def loop(table: Array, row_of: Array, addresses: Array, sizes: Array) -> None:
        width = table.itemsize
        for i in range(sizes.size):
            row, size = to_fixed_tuple(table[row_of[i]], count), sizes[i]
            far = apart(size, width, places)
            for number in range(pieces(far, width, places)):
                start, some = piece(number, size, far, width, places)
                part(addresses[:, i], table, start, some, row)

    return loop


def _two(formula: Formula) -> Part:
    @device()
    def part(places: Array, like: Array, start: int, size: int, row: tuple[float, ...]) -> None:
        p = numba.carray(pointer(places[0] + start * like.itemsize, like), size)
        g = numba.carray(pointer(places[1] + start * like.itemsize, like), size)
        for j in range(size):
            (p[j],) = formula(p[j], g[j], *row)

    return part


def _three(formula: Formula) -> Part:
    @device()
    def part(places: Array, like: Array, start: int, size: int, row: tuple[float, ...]) -> None:
        p = numba.carray(pointer(places[0] + start * like.itemsize, like), size)
        g = numba.carray(pointer(places[1] + start * like.itemsize, like), size)
        a = numba.carray(pointer(places[2] + start * like.itemsize, like), size)
        for j in range(size):
            p[j], a[j] = formula(p[j], g[j], a[j], *row)

    return part


def _four(formula: Formula) -> Part:
    @device()
    def part(places: Array, like: Array, start: int, size: int, row: tuple[float, ...]) -> None:
        p = numba.carray(pointer(places[0] + start * like.itemsize, like), size)
        g = numba.carray(pointer(places[1] + start * like.itemsize, like), size)
        a = numba.carray(pointer(places[2] + start * like.itemsize, like), size)
        b = numba.carray(pointer(places[3] + start * like.itemsize, like), size)
        for j in range(size):
            p[j], a[j], b[j] = formula(p[j], g[j], a[j], b[j], *row)

    return part


def _five(formula: Formula) -> Part:
    @device()
    def part(places: Array, like: Array, start: int, size: int, row: tuple[float, ...]) -> None:
        p = numba.carray(pointer(places[0] + start * like.itemsize, like), size)
        g = numba.carray(pointer(places[1] + start * like.itemsize, like), size)
        a = numba.carray(pointer(places[2] + start * like.itemsize, like), size)
        b = numba.carray(pointer(places[3] + start * like.itemsize, like), size)
        c = numba.carray(pointer(places[4] + start * like.itemsize, like), size)
        for j in range(size):
            p[j], a[j], b[j], c[j] = formula(p[j], g[j], a[j], b[j], c[j], *row)

    return part


_PARTS = {2: _two, 3: _three, 4: _four, 5: _five}
