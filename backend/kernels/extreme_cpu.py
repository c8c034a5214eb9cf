"""Fused extremes for NumPy arrays; the formulas are in ``total.py``.

As integers (sign folded), floats keep their order, and an integer maximum vectorises where a float one, which
has to respect NaN, does not. NaN is found by the largest magnitude: it lies above that of infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, device, read, write
from shardwise.backend.kernels.runs import over_runs

__all__ = ["largest_over", "smallest_over"]

_LANES = 1024
_WIDE = 512  # columns that short rows are put together to


def largest_over(x: Array, dims: tuple[int, ...]) -> Array:
    return over_runs(x, dims, _LARGEST.once, _LARGEST.once)


def smallest_over(x: Array, dims: tuple[int, ...]) -> Array:
    return over_runs(x, dims, _SMALLEST.once, _SMALLEST.once)


@dataclass(frozen=True)
class _Bits:
    """The integers behind a float dtype: all bits but the sign, infinity, and the place of the sign."""

    integer: Any
    real: Any
    magnitude: int
    infinity: int
    sign: int


_FLOAT32 = _Bits(np.int32, np.float32, 0x7FFFFFFF, 0x7F800000, 31)
_FLOAT64 = _Bits(np.int64, np.float64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000, 63)


@device()
def _larger(x: int, y: int) -> int:
    return max(x, y)


@device()
def _smaller(x: int, y: int) -> int:
    return min(x, y)


def _of_rows(better: Any, bits: _Bits, worst: int) -> Callable[[Array, Array], None]:
    integer, real = bits.integer, bits.real
    magnitude, infinity, sign = integer(bits.magnitude), integer(bits.infinity), integer(bits.sign)
    begin, zero, nan = integer(worst), integer(0), real(np.nan)

    def loop(x: Array, out: Array) -> None:
        for i in range(x.shape[0]):
            row, best, top = x[i], begin, zero
            for j in range(row.size):
                key = real(row[j]).view(integer)
                top = max(top, integer(key & magnitude))
                best = better(best, integer(key ^ integer((key >> sign) & magnitude)))
            value = integer(best ^ integer((best >> sign) & magnitude)).view(real)
            out[i] = nan if top > infinity else value

    return loop


class _Extreme:
    """The largest or the smallest along one dim."""

    def __init__(self, name: str, better: Any, ufunc: np.ufunc, largest: bool) -> None:
        self._ufunc = ufunc
        self._rows: dict[str, Fused] = {}
        for letter, bits in (("f", _FLOAT32), ("d", _FLOAT64)):
            loop = _of_rows(better, bits, -bits.magnitude - 1 if largest else bits.magnitude)
            loop.__qualname__ = f"{name}.{letter}"  # by which it is kept on disk
            self._rows[letter] = Fused(loop, lambda real: (read(real, 2), write(real, 1)), exact=False)

    def once(self, x: Array) -> Array:
        """Reduce the middle one of three dims."""
        outer, count, inner = x.shape
        together = _WIDE // max(inner, 1)
        if inner > 1 and outer == 1 and together > 1 and count >= 4 * together:  # short rows, put together
            rest = count % together
            wide = self._ufunc.reduce(x[0, : count - rest].reshape(-1, together * inner), axis=0)
            rows = np.concatenate((wide.reshape(together, inner), x[0, count - rest :]))
            return self._ufunc.reduce(rows, axis=0)
        if inner != 1 or not count:  # whole rows, at which NumPy is as fast as the memory
            return self._ufunc.reduce(x, axis=1)
        if outer == 1 and count > 2 * _LANES:
            whole = count - count % _LANES
            flat = x.reshape(-1)
            parts = self._of(flat[:whole].reshape(-1, _LANES))
            return self._ufunc.reduce(np.concatenate((parts, flat[whole:])), keepdims=True)
        return self._of(x.reshape(outer, count))

    def _of(self, rows: Array) -> Array:
        out = np.empty(len(rows), rows.dtype)
        self._rows[rows.dtype.char](rows, out)
        return out


_LARGEST = _Extreme("largest", _larger, np.maximum, True)
_SMALLEST = _Extreme("smallest", _smaller, np.minimum, False)
