"""Random 32-bit words by position: Philox 4x32-10, a generator without state.

Word `i` of a stream depends on nothing but (seed, stream, i), so any rank can make any part of a global
array, in any order, on any device, and get the same bits.

The words are laid out thus. Block ``b = i // 4`` gives four words, of which word `i` is lane ``i % 4``:

======================  ==========================================================
counter words 0, 1      low and high half of the block number ``b``
counter words 2, 3      low and high half of the 64-bit stream
key words 0, 1          low and high half of the 64-bit seed
======================  ==========================================================

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011; the known answers in the tests are from their Random123 library.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.position import Grid

__all__ = ["philox_4x32", "random_words", "split_64"]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def split_64(value: int) -> tuple[int, int]:
    """The low and the high 32 bits of `value`, which is taken modulo 2**64 (so -1 is all ones)."""
    return value & _LOW, (value >> 32) & _LOW


def philox_4x32(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> tuple[Array, ...]:
    """Ten rounds of Philox on blocks of four words.

    Parameters
    ----------
    counter : four arrays of uint64, shape (blocks,)
        Each holding 32-bit values; they may broadcast.
    key : tuple of two int
        32 bits each.

    Returns
    -------
    tuple of four arrays of uint64
        The output words, 32 bits each.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = c0 * _MULTIPLIERS[0]
        product1 = c2 * _MULTIPLIERS[1]
        c0, c2 = (product1 >> 32) ^ c1 ^ k0, (product0 >> 32) ^ c3 ^ k1
        c1, c3 = product1 & _LOW, product0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


def _random_words(like: Array | None, count: int, seed: int, stream: int, start: int | Grid) -> Array:
    """Words `start` to ``start + count`` of a stream.

    Parameters
    ----------
    like : array or None
        Its kind (and device) is that of the result; None means NumPy's.
    count : int
        How many words.
    seed, stream : int
        Taken modulo 2**64.
    start : int or Grid
        Position of the first word in the stream, 0 or more; or the positions of all.

    Returns
    -------
    array of uint32, shape (count,)
    """
    like = np.empty(0, np.uint64) if like is None else like
    if isinstance(start, Grid):
        return _words_at(start.positions(like), seed, stream)
    first, skip = divmod(start, 4)
    blocks = (skip + count + 3) // 4
    number = np.arange(first, first + blocks, dtype=np.uint64, like=like)
    zero = np.zeros_like(number)
    stream_low, stream_high = split_64(stream)
    counter = (number & _LOW, number >> 32, zero + stream_low, zero + stream_high)
    words = np.stack(philox_4x32(counter, split_64(seed)), axis=-1)
    return np.reshape(words, (4 * blocks,))[skip : skip + count].astype(np.uint32)


def _words_at(position: Array, seed: int, stream: int) -> Array:
    """Make the block of each word, and take the word's lane of it."""
    number, lane = position >> 2, position & 3
    zero = np.zeros_like(number)
    stream_low, stream_high = split_64(stream)
    counter = (number & _LOW, number >> 32, zero + stream_low, zero + stream_high)
    a, b, c, d = philox_4x32(counter, split_64(seed))
    low, high = np.where(lane == 0, a, b), np.where(lane == 2, c, d)
    return np.where(lane < 2, low, high).astype(np.uint32)


random_words = Kernel(
    _random_words,
    "shardwise.backend.kernels.random.random_cpu:random_words",
    arrays=1,
    cuda="shardwise.backend.kernels.random.random_cuda:random_words",
    like=True,
)
