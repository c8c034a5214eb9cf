"""What attention does to a block of scores, compiled.

A block is (matrices, keys, queries), keys first: BLAS multiplies into that order faster than into the
other, and since what belongs to a query lies along a row, all loops over rows vectorise.

Where blocks have four dims the first two are the last two leading dims of the attention.

Exponentials are those of 2 in float32, which are quicker than those of e; `factor` has ``log2(e)`` in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np
from numba.extending import overload

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import (
    POINTWISE,
    boolean,
    float64,
    fused,
    int64,
    read,
    read_strided,
    write,
    write_strided,
)
from shardwise.backend.kernels.random.random_cpu import fill

__all__ = [
    "BASE", "add_bias_", "add_bias_gradient_", "differentiate_", "draw_", "drop_", "hide_", "turn_", "weigh_",
]  # fmt: skip

BASE = {np.dtype(np.float32): 2.0, np.dtype(np.float64): math.e}

_LOWEST = np.float32(-126)  # below, the result is denormal, and as good as 0 beside a largest weight of 1
_HALF, _ZERO, _ONE = np.float32(0.5), np.float32(0), np.float32(1)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)
# 2**r for |r| <= 1/2, with the relative error of at most 9.2e-8 of the best such polynomial that is 1 at 0
_P1, _P2, _P3 = (
    np.float32(0.6931469775984723),
    np.float32(0.2402224208491921),
    np.float32(0.05550733744244581),
)
_P4, _P5 = np.float32(0.009671512660563587), np.float32(0.0013264726899031238)

_TILE = 32  # keys, or queries


def power(y: float) -> float:
    """2**y in float32, e**y in float64; y is not positive, -inf or NaN."""
    return math.exp(y)


def _power32(y: np.float32) -> np.float32:
    n = np.floor(y + _HALF)
    r = y - n
    p = ((((_P5 * r + _P4) * r + _P3) * r + _P2) * r + _P1) * r + _ONE
    scaled = p * np.int32((np.int32(n) + _BIAS) << _MANTISSA_BITS).view(np.float32)
    return _ZERO if y < _LOWEST else scaled  # NaN fails the comparison, and stays


def _power64(y: float) -> float:
    return math.exp(y)


def _power_for(y: object) -> Callable[..., object]:
    return _power32 if y == numba.types.float32 else _power64


overload(power, jit_options=POINTWISE, strict=False)(_power_for)


@fused(lambda real: (*(write(real, n) for n in (3, 2, 2, 2)), float64, int64, boolean))
def weigh_(
    s: Array, top: Array, total: Array, decay: Array, factor: float, diagonal: int, first: bool
) -> None:
    """Turn the scores of one more block of keys into weights that do not add up to 1 yet.

    Key j is seen by the queries from ``j - diagonal`` on. `top` and `total` are the largest score so far
    and the sum of the weights relative to it; `decay` is what earlier weights have to be multiplied by.
    """
    real = s.dtype.type
    unit, lowest, zero = real(factor), real(-np.inf), real(0)
    count, keys, queries = s.shape
    base, sums = np.empty(queries, s.dtype), np.empty(queries, s.dtype)
    for b in range(count):
        highest, totals, fading = top[b], total[b], decay[b]
        for i in range(queries):
            base[i] = lowest if first else highest[i]
        for j in range(keys):
            start = min(max(j - diagonal, 0), queries)
            row, highs = s[b, j, start:], base[start:]
            for i in range(row.size):
                highs[i] = row[i] if row[i] > highs[i] else highs[i]
        for i in range(queries):
            new = base[i]
            old = lowest if first else highest[i]
            highest[i] = new
            base[i] = zero if new == lowest else new
            fading[i] = power((old - base[i]) * unit)
            sums[i] = zero
        for j in range(keys):
            start = min(max(j - diagonal, 0), queries)
            s[b, j, :start] = zero
            row, bases, adding = s[b, j, start:], base[start:], sums[start:]
            for i in range(row.size):
                e = power((row[i] - bases[i]) * unit)
                row[i] = e
                adding[i] += e
        for i in range(queries):
            totals[i] = sums[i] if first else totals[i] * fading[i] + sums[i]


@fused(lambda scalar: (write(scalar, 4), read_strided(scalar, 4)))
def turn_(out: Array, mask: Array) -> None:
    """Copy a mask, (.., .., queries, keys), into the order of a block.

    A few keys at a time, of all queries, so that each piece of a row that comes into the cache is used as
    a whole, and so is each piece of `out`.
    """
    outer, inner, keys, queries = out.shape
    tile = 4 * _TILE // out.itemsize
    for b in range(outer):
        for h in range(inner):
            turned, given = out[b, h], mask[b, h]
            for start in range(0, keys, tile):
                stop = min(start + tile, keys)
                for i in range(queries):
                    for j in range(start, stop):
                        turned[j, i] = given[i, j]


@fused(lambda real: (write(real, 4), read(boolean, 4)))
def hide_(s: Array, mask: Array) -> None:
    """Set scores to -inf where the mask is False; its heads, and its queries, may be one for all."""
    lowest = s.dtype.type(-np.inf)
    outer, inner, keys, queries = s.shape
    for b in range(outer):
        for h in range(inner):
            scores = s[b, h]
            seen = mask[min(b, mask.shape[0] - 1), min(h, mask.shape[1] - 1)]
            for j in range(keys):
                row, shown = scores[j], seen[j]
                if shown.size == queries:
                    for i in range(queries):
                        row[i] = row[i] if shown[i] else lowest
                elif not shown[0]:
                    row[:] = lowest


@fused(lambda real: (write(real, 4), read(real, 4)))
def add_bias_(s: Array, bias: Array) -> None:
    """Add a bias to the scores; its heads, and its queries, may be one for all."""
    outer, inner, keys, queries = s.shape
    for b in range(outer):
        for h in range(inner):
            scores = s[b, h]
            added = bias[min(b, bias.shape[0] - 1), min(h, bias.shape[1] - 1)]
            for j in range(keys):
                row, more = scores[j], added[j]
                if more.size == queries:
                    for i in range(queries):
                        row[i] += more[i]
                else:
                    for i in range(queries):
                        row[i] += more[0]


@fused(lambda real: (read(real, 4), write_strided(real, 4)))
def add_bias_gradient_(ds: Array, gradient: Array) -> None:
    """Add the gradients of the scores to that of the bias, whose dims that were broadcast have stride 0."""
    outer, inner, keys, queries = ds.shape
    for b in range(outer):
        for h in range(inner):
            scores, sums = ds[b, h], gradient[b, h]
            for start in range(0, keys, _TILE):
                stop = min(start + _TILE, keys)
                for i in range(queries):
                    for j in range(start, stop):
                        sums[i, j] += scores[j, i]


@fused(
    lambda real: (
        *(write(real, 3), write(real, 3), read(real, 2), read(real, 2), read(boolean, 3)),
        *(boolean, float64, float64, int64),
    )
)
def differentiate_(
    s: Array,
    dp: Array,
    top: Array,
    along: Array,
    kept: Array,
    dropping: bool,
    factor: float,
    scale: float,
    diagonal: int,
) -> None:
    """Turn scores into weights, those that were dropped 0, and gradients of weights into those of scores.

    The weights do not add up to 1, for which the gradients that they meet have been multiplied instead.
    """
    real = s.dtype.type
    unit, slope, zero = real(factor), real(scale), real(0)
    count, keys, queries = s.shape
    for b in range(count):
        for j in range(keys):
            start = min(max(j - diagonal, 0), queries)
            s[b, j, :start] = zero
            dp[b, j, :start] = zero
            row, gradient, tops, sums = s[b, j, start:], dp[b, j, start:], top[b, start:], along[b, start:]
            if dropping:
                keeps = kept[b, j, start:]
                for i in range(row.size):
                    y = (row[i] - tops[i]) * unit
                    e = power(zero if y > zero else y)
                    gradient[i] = e * ((gradient[i] if keeps[i] else zero) - sums[i]) * slope
                    row[i] = e if keeps[i] else zero
            else:
                for i in range(row.size):
                    # A product that is computed again can be larger than the largest was, in its last bit.
                    y = (row[i] - tops[i]) * unit
                    e = power(zero if y > zero else y)
                    gradient[i] = e * (gradient[i] - sums[i]) * slope
                    row[i] = e


@fused(lambda flag: (write(boolean, 4), read(int64, 2), *(int64,) * 8))
def draw_(
    kept: Array,
    first: Array,
    row: int,
    key: int,
    width: int,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
    threshold: int,
) -> None:
    """Draw which weights are kept: bit ``first + (row + i) * width + key + j`` for key j and query i."""
    outer, inner, keys, queries = kept.shape
    # Rows end with some words that nobody reads: with a length of a power of two they would push each
    # other out of the cache.
    words = np.empty((_TILE, (keys + 7) // 4 * 4 + 20), np.uint32)
    skips = np.empty(_TILE, np.int64)
    for b in range(outer):
        for h in range(inner):
            for begin in range(0, queries, _TILE):
                count = min(_TILE, queries - begin)
                for i in range(count):
                    start = first[b, h] + (row + begin + i) * width + key
                    skips[i] = start % 4
                    used = words[i, : (skips[i] + keys + 3) // 4 * 4]
                    fill(used, start // 4, seed_low, seed_high, stream_low, stream_high)
                for j in range(keys):
                    place = kept[b, h, j, begin : begin + count]
                    for i in range(count):
                        place[i] = np.int64(words[i, skips[i] + j]) >= threshold


@fused(lambda real: (write(real, 1), read(boolean, 1)))
def drop_(weights: Array, kept: Array) -> None:
    """Set the weights that are not kept to 0."""
    zero = weights.dtype.type(0)
    for i in range(weights.size):
        weights[i] = weights[i] if kept[i] else zero
