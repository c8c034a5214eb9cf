"""Fused extremes for NumPy arrays; the formulas are in ``total.py``.

The bits of floats are looked at as integers, whose extremes vectorise where those of floats, which have to
respect NaN, do not. Positive floats are in the order of signed integers; negative ones are in the opposite
order, and lie behind them where integers are unsigned. So the largest and the smallest signed integer and the
largest unsigned one are enough to say which float is the largest or the smallest, and whether there was NaN,
which lies beyond infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import Fused, device, read, write
from shardwise.backend.kernels.reduction.runs import over_runs

__all__ = ["largest_over", "smallest_over"]

_LANES = 1024
_WIDE = 512  # columns that short rows are put together to


def largest_over(x: Array, dims: tuple[int, ...]) -> Array:
    return over_runs(x, dims, _LARGEST.once, _LARGEST.once)


def smallest_over(x: Array, dims: tuple[int, ...]) -> Array:
    return over_runs(x, dims, _SMALLEST.once, _SMALLEST.once)


@dataclass(frozen=True)
class _Bits:
    """The integers behind a float dtype: signed and unsigned, infinity of either sign, and the limits."""

    signed: Any
    unsigned: Any
    real: Any
    infinity: int
    negative_infinity: int  # unsigned
    top: int


_FLOAT32 = _Bits(np.int32, np.uint32, np.float32, 0x7F800000, 0xFF800000, 0x7FFFFFFF)
_FLOAT64 = _Bits(np.int64, np.uint64, np.float64, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FFFFFFFFFFFFFFF)


@device()
def _largest_of(high: int, low: int, far: int) -> int:
    return high if high >= 0 else low


@device()
def _smallest_of(high: int, low: int, far: int) -> int:
    return far if far < 0 else low


def _of_rows(choice: Any, bits: _Bits) -> Callable[[Array, Array], None]:
    signed, unsigned, real = bits.signed, bits.unsigned, bits.real
    infinity, negative_infinity = signed(bits.infinity), unsigned(bits.negative_infinity)
    least, most, zero, nan = signed(-bits.top - 1), signed(bits.top), unsigned(0), real(np.nan)

    def loop(x: Array, out: Array) -> None:
        for i in range(x.shape[0]):
            row, high, low, far = x[i], least, most, zero
            for j in range(row.size):
                word = real(row[j]).view(signed)
                high, low, far = max(high, word), min(low, word), max(far, unsigned(word))
            value = signed(choice(high, low, signed(far))).view(real)
            out[i] = nan if (high > infinity) | (far > negative_infinity) else value

    return loop


class _Extreme:
    """The largest or the smallest along one dim."""

    def __init__(self, name: str, choice: Any, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self._rows: dict[str, Fused] = {}
        for letter, bits in (("f", _FLOAT32), ("d", _FLOAT64)):
            loop = _of_rows(choice, bits)
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


_LARGEST = _Extreme("largest", _largest_of, np.maximum)
_SMALLEST = _Extreme("smallest", _smallest_of, np.minimum)
