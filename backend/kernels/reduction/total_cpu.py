"""Fused sums for NumPy arrays; the formulas are in ``total.py``.

Where nothing lies behind the dims that go, elements of a row are added up in lanes; else whole rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, NumbaType, device, fused, read, write
from shardwise.backend.kernels.reduction.runs import over_runs

__all__ = ["product_over", "sum_of_numbers_over", "sum_of_sizes_over", "sum_of_squares_over", "sum_over"]

Dims = tuple[int, ...]
_LANES = 1024  # elements that are added up in the arrays' precision
_GROUP = 64  # blocks whose sums are added up before they join the total
_FACTORS = 256  # elements that are multiplied in lanes: eight a lane, for which double precision has room
_ROWS = 128  # rows that are
_TILE = 2048  # columns whose sums stay in the first-level cache
_WIDE = 512  # columns that short rows are put together to


@dataclass(frozen=True)
class _Sum:
    """Sums of a function of each element. The loops are compiled when they are first needed."""

    function: Any
    name: str
    loops: dict[str, Fused] = field(default_factory=dict)

    def over(self, x: Array, dims: Dims) -> Array:
        """Reduce over some dims."""
        flags = x.flags
        if flags.c_contiguous and flags.aligned:  # most sums are of everything, or of the last dim
            if len(dims) == x.ndim:
                out = np.empty((), x.dtype)
                self._loop("all")(x.reshape(-1), out.reshape(1))
                return out
            if dims == (x.ndim - 1,) and x.size:
                out = np.empty(x.shape[:-1], x.dtype)
                count = x.shape[-1]
                loop = self._loop("rows" if count <= _LANES else "long_rows")
                loop(x.reshape(-1, count), out.reshape(-1))
                return out
        return over_runs(x, dims, self.once, _PLAIN.once)

    def once(self, x: Array) -> Array:
        """Reduce the middle one of three dims."""
        outer, count, inner = x.shape
        if inner == 1 and outer == 1:
            out = np.empty(1, x.dtype)
            self._loop("all")(x.reshape(-1), out)
            return out
        if inner == 1:
            out = np.empty(outer, x.dtype)
            self._loop("rows" if count <= _LANES else "long_rows")(x.reshape(outer, count), out)
            return out
        together = _WIDE // max(inner, 1)
        if outer == 1 and together > 1 and count >= 4 * together:
            rest = count % together
            wide = x[0, : count - rest].reshape(1, -1, together * inner)
            parts = self.once(wide).reshape(together, inner)
            total = np.sum(parts, axis=0, dtype=np.float64)
            if rest:
                last = np.empty((1, inner), x.dtype)
                self._loop("columns")(x[:, count - rest :], last)
                total += last[0]
            return total.astype(x.dtype)
        out = np.empty((outer, inner), x.dtype)
        self._loop("columns")(x, out)
        return out

    def _loop(self, kind: str) -> Fused:
        loop = self.loops.get(kind)
        if loop is None:
            function, types = _LOOPS[kind]
            made = function(self.function)
            made.__qualname__ = f"{self.name}.{kind}"  # by which it is kept on disk
            loop = self.loops[kind] = Fused(made, types, exact=False)
        return loop


def product_over(x: Array, dims: Dims) -> Array:
    # In float64 lanes might overflow where one factor after the other would not.
    if x.dtype != np.float32:
        return np.asarray(np.prod(x, axis=dims))
    if dims == (x.ndim - 1,) and x.size and x.flags.c_contiguous and x.flags.aligned:
        out = np.empty(x.shape[:-1], x.dtype)
        _products(x.reshape(-1, x.shape[-1]), out.reshape(-1))
        return out
    return over_runs(x, dims, _multiplied, _multiplied)


def _multiplied(x: Array) -> Array:
    """Reduce the middle one of three dims by multiplying."""
    outer, count, inner = x.shape
    if inner != 1:  # rows as a whole
        return np.multiply.reduce(x, axis=1)
    out = np.empty(outer, x.dtype)
    _products(x.reshape(outer, count), out)
    return out


@device()
def _same(x: float) -> float:
    return x


@device()
def _square(x: float) -> float:
    return x * x


@device()
def _size(x: float) -> float:
    return abs(x)


@device()
def _number(x: float) -> float:
    return x if x == x else type(x)(0)


Scalar = Callable[[float], float]
Loop = Callable[[Array, Array], None]


def _of_all(f: Scalar) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        whole = x.size - x.size % _LANES
        total, some, left = 0.0, 0.0, _GROUP
        for start in range(0, whole, _LANES):
            block, part = x[start : start + _LANES], real(0)
            for j in range(_LANES):
                part += f(block[j])
            some += part
            left -= 1
            if left == 0:
                total, some, left = total + some, 0.0, _GROUP
        block, part = x[whole:], real(0)
        for j in range(block.size):
            part += f(block[j])
        out[0] = real(total + (some + part))

    return loop


def _of_rows(f: Scalar) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        for i in range(x.shape[0]):
            row, total = x[i], real(0)
            for j in range(row.size):
                total += f(row[j])
            out[i] = total

    return loop


def _of_long_rows(f: Scalar) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        whole = x.shape[1] - x.shape[1] % _LANES
        for i in range(x.shape[0]):
            row, total = x[i], 0.0
            for start in range(0, whole, _LANES):
                block, part = row[start : start + _LANES], real(0)
                for j in range(_LANES):
                    part += f(block[j])
                total += part
            block, part = row[whole:], real(0)
            for j in range(block.size):
                part += f(block[j])
            out[i] = real(total + part)

    return loop


def _of_columns(f: Scalar) -> Loop:
    def loop(x: Array, out: Array) -> None:
        real = x.dtype.type
        outer, count, inner = x.shape
        width = max(1, min(inner, _TILE))
        parts, totals = np.empty(width, x.dtype), np.empty(width, np.float64)
        for o in range(outer):
            for left in range(0, inner, width):
                right = min(left + width, inner)
                part, total = parts[: right - left], totals[: right - left]
                total[:] = 0.0
                for start in range(0, count, _ROWS):
                    part[:] = real(0)
                    for i in range(start, min(start + _ROWS, count)):
                        row = x[o, i, left:right]
                        for j in range(part.size):
                            part[j] += f(row[j])
                    for j in range(part.size):
                        total[j] += part[j]
                target = out[o, left:right]
                for j in range(part.size):
                    target[j] = real(total[j])

    return loop


def _two_to_one(real: NumbaType) -> tuple[NumbaType, ...]:
    return read(real, 2), write(real, 1)


_LOOPS: dict[str, tuple[Callable[[Scalar], Loop], Callable[[NumbaType], tuple[NumbaType, ...]]]] = {
    "rows": (_of_rows, _two_to_one),
    "all": (_of_all, lambda real: (read(real, 1), write(real, 1))),
    "long_rows": (_of_long_rows, _two_to_one),
    "columns": (_of_columns, lambda real: (read(real, 3), write(real, 2))),
}

_PLAIN = _Sum(_same, "sum")
_SQUARES, _SIZES, _NUMBERS = _Sum(_square, "squares"), _Sum(_size, "sizes"), _Sum(_number, "numbers")


def sum_over(x: Array, dims: Dims) -> Array:
    return _PLAIN.over(x, dims)


def sum_of_squares_over(x: Array, dims: Dims) -> Array:
    return _SQUARES.over(x, dims)


def sum_of_sizes_over(x: Array, dims: Dims) -> Array:
    return _SIZES.over(x, dims)


def sum_of_numbers_over(x: Array, dims: Dims) -> Array:
    return _NUMBERS.over(x, dims)


@fused(lambda real: (read(real, 2), write(real, 1)))
def _products(x: Array, out: Array) -> None:
    real = x.dtype.type
    whole = x.shape[1] - x.shape[1] % _FACTORS
    for i in range(x.shape[0]):
        row, product = x[i], 1.0
        for start in range(0, whole, _FACTORS):
            block, part = row[start : start + _FACTORS], 1.0
            for j in range(_FACTORS):
                part *= block[j]
            product *= part
        block, part = row[whole:], 1.0
        for j in range(block.size):
            part *= block[j]
        out[i] = real(product * part)
