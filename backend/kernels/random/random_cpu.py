"""Fused random bits for NumPy arrays, equal bit for bit to the formulas in ``random.py``.

Words are made a few hundred at a time in a buffer that stays in the first-level cache, and turned into
numbers from there: both loops vectorise, which one loop over lanes of a block would not.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import boolean, device, fused, int64, read, write
from shardwise.backend.kernels.random.quantile_cpu import normal_double, normal_single
from shardwise.backend.philox import split_64
from shardwise.backend.position import Grid

__all__ = ["CHUNK", "bernoulli", "fill", "normal", "random_words", "runs", "uniform"]

CHUNK = 512  # words; a multiple of 4

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_HALF = np.uint64(32)
_UNIT_SINGLE, _UNIT_DOUBLE = np.float32(2.0**-24), 2.0**-53


def random_words(like: Array | None, count: int, seed: int, stream: int, start: int | Grid) -> Array:
    out = np.empty(count, np.uint32)
    _words(*runs(start, out), *split_64(seed), *split_64(stream))
    return out


def uniform(
    like: Array | None, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    out = np.empty(count, dtype)
    if dtype == np.float32:
        _uniform_single(*runs(offset, out), *split_64(seed), *split_64(stream))
    else:
        _uniform_double(*runs(offset, out), *split_64(seed), *split_64(stream))
    return out


def normal(
    like: Array | None, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    out = np.empty(count, dtype)
    if dtype == np.float32:
        _normal_single(*runs(offset, out), *split_64(seed), *split_64(stream))
    else:
        _normal_double(*runs(offset, out), *split_64(seed), *split_64(stream))
    return out


def bernoulli(
    like: Array | None, count: int, threshold: int, seed: int, stream: int, offset: int | Grid
) -> Array:
    out = np.empty(count, np.bool_)
    _bernoulli(*runs(offset, out), *split_64(seed), *split_64(stream), threshold)
    return out


def runs(place: int | Grid, array: Array) -> tuple[Array, Array]:
    """Return an array as runs of consecutive elements, (runs, length), and where each starts."""
    if isinstance(place, Grid):
        return array.reshape(-1, place.length), place.starts()
    return array.reshape(1, -1), np.array([place], np.int64)


@device(exact=True)
def fill(words: Array, block: int, seed_low: int, seed_high: int, stream_low: int, stream_high: int) -> None:
    """Write the words of consecutive Philox blocks, from number `block` on; see ``philox.py``."""
    for b in range(words.size // 4):
        number = np.uint64(block + b)
        c0, c1 = np.uint32(number), np.uint32(number >> _HALF)
        c2, c3 = np.uint32(stream_low), np.uint32(stream_high)
        k0, k1 = np.uint32(seed_low), np.uint32(seed_high)
        for _ in range(10):
            product0, product1 = np.uint64(c0) * _M0, np.uint64(c2) * _M1
            c0 = np.uint32(np.uint32(product1 >> _HALF) ^ c1 ^ k0)
            c2 = np.uint32(np.uint32(product0 >> _HALF) ^ c3 ^ k1)
            c1, c3 = np.uint32(product1), np.uint32(product0)
            k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
        words[4 * b] = c0
        words[4 * b + 1] = c1
        words[4 * b + 2] = c2
        words[4 * b + 3] = c3


# Each kernel below walks the output run by run, in parts that end where a buffer of words ends. The part
# and the words that it uses are taken as slices, because an index with an offset hides from LLVM that it
# is not negative, and the loop stays scalar.

_SIGNATURE = (int64, int64, int64, int64)


@fused(lambda word: (write(word, 2), read(int64, 1), *_SIGNATURE), exact=True)
def _words(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + length - done + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + CHUNK - skip], buffer[skip:]
            for j in range(part.size):
                part[j] = words[j]
            done, block, skip = done + part.size, block + CHUNK // 4, 0


@fused(lambda real: (write(real, 2), read(int64, 1), *_SIGNATURE), exact=True)
def _uniform_single(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + length - done + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + CHUNK - skip], buffer[skip:]
            for j in range(part.size):
                part[j] = np.float32(np.int32(words[j] >> np.uint32(8))) * _UNIT_SINGLE
            done, block, skip = done + part.size, block + CHUNK // 4, 0


@fused(lambda real: (write(real, 2), read(int64, 1), *_SIGNATURE), exact=True)
def _uniform_double(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], 2 * starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + 2 * (length - done) + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + (CHUNK - skip) // 2], buffer[skip:]
            for j in range(part.size):
                word = (np.uint64(words[2 * j]) << _HALF) | np.uint64(words[2 * j + 1])
                part[j] = np.float64(np.int64(word >> np.uint64(11))) * _UNIT_DOUBLE
            done, block, skip = done + part.size, block + CHUNK // 4, 0


@fused(lambda real: (write(real, 2), read(int64, 1), *_SIGNATURE), exact=True)
def _normal_single(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + length - done + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + CHUNK - skip], buffer[skip:]
            for j in range(part.size):
                part[j] = normal_single(words[j])
            done, block, skip = done + part.size, block + CHUNK // 4, 0


@fused(lambda real: (write(real, 2), read(int64, 1), *_SIGNATURE), exact=True)
def _normal_double(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], 2 * starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + 2 * (length - done) + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + (CHUNK - skip) // 2], buffer[skip:]
            for j in range(part.size):
                word = (np.uint64(words[2 * j]) << _HALF) | np.uint64(words[2 * j + 1])
                part[j] = normal_double(word)
            done, block, skip = done + part.size, block + CHUNK // 4, 0


@fused(lambda flag: (write(boolean, 2), read(int64, 1), *_SIGNATURE, int64), exact=True)
def _bernoulli(
    out: Array,
    starts: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
    threshold: int,
) -> None:
    buffer = np.empty(CHUNK, np.uint32)
    length = out.shape[1]
    for r in range(out.shape[0]):
        row, start = out[r], starts[r]
        block, skip, done = start // 4, start % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + length - done + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            part, words = row[done : done + CHUNK - skip], buffer[skip:]
            for j in range(part.size):
                part[j] = np.int64(words[j]) < threshold
            done, block, skip = done + part.size, block + CHUNK // 4, 0
