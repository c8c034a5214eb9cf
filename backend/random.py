"""Random arrays by position: what element `i` of a stream is depends on (seed, stream, i) alone.

Every function takes `offset`, the flat index in the global array of the first element wanted, or `Positions`
that say where all of a box lie, so a rank makes its part of a global array by itself, and gets exactly that
slice of what one rank would have made.
The bits are the same on the CPU and on the GPU, fused or not.

How many words of the stream an element takes (see :mod:`shardwise.backend.philox` for the words):

===============================  =====  ==========================================================
kind                             words  value
===============================  =====  ==========================================================
uniform float32                  1      ``(w >> 8) * 2**-24``
uniform float64                  2      ``((w[2i] << 32 | w[2i+1]) >> 11) * 2**-53``
uniform float16, bfloat16        1      ``(w >> 21) * 2**-11``, ``(w >> 24) * 2**-8``
normal float32                   1      quantile of ``(w + 1/2) * 2**-32``
normal float64                   2      quantile of the top 53 bits plus 1/2
normal float16, bfloat16         1      the float32 normal, rounded
bernoulli                        1      ``w * 2**-32 < p``, decided on integers
integers                         2      ``low + (w64 * (high - low) >> 64)``
permutation                      2      the order of the 64-bit words
===============================  =====  ==========================================================

The streams of different kinds are not kept apart: draw two arrays from two streams.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.philox import random_words
from shardwise.backend.position import Grid, Place, Positions, grid_of
from shardwise.backend.quantile import normal_from_doublewords, normal_from_words

__all__ = ["bernoulli", "bernoulli_threshold", "integers", "normal", "permutation", "uniform"]

_FUSED = "shardwise.backend.kernels.random.random_cpu"
_CUDA = "shardwise.backend.kernels.random.random_cuda"
_MANTISSA = {"float16": 11, "bfloat16": 8}


def uniform(
    shape: Shape, dtype: DTypeLike, seed: int, stream: int, offset: Place = 0, like: Array | None = None
) -> Array:
    """Numbers in [0, 1), all multiples of one power of two equally likely.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
        float32, float64, float16 or bfloat16.
    seed, stream : int
        Taken modulo 2**64.
    offset : int or Positions, default 0
        Flat global index of the first element, or where all of them lie, if they are not consecutive.
    like : array, optional
        The result is of its kind and on its device; NumPy's by default.

    Returns
    -------
    array of `shape` and `dtype`

    Raises
    ------
    DTypeError
        For any other dtype.
    ArgumentError
        For a negative `offset`.

    Examples
    --------
    >>> whole = uniform((4, 3), np.float32, seed=1, stream=2)
    >>> part = uniform((2, 3), np.float32, seed=1, stream=2, offset=6)
    >>> bool((whole[2:] == part).all())
    True
    """
    kind, count, at = _checked("uniform", dtype, shape, offset)
    if kind.name in _MANTISSA:
        bits = _MANTISSA[kind.name]
        words = random_words(_other(like), count, seed, stream, at)
        flat = ((words >> (32 - bits)).astype(np.float32) * 2.0**-bits).astype(kind)
    else:
        flat = _uniform(_other(like), count, kind, seed, stream, at)
    return np.reshape(flat, shape)


def normal(
    shape: Shape, dtype: DTypeLike, seed: int, stream: int, offset: Place = 0, like: Array | None = None
) -> Array:
    """Numbers from the normal distribution of mean 0 and variance 1.

    Parameters and errors are those of :func:`uniform`.
    """
    kind, count, at = _checked("normal", dtype, shape, offset)
    if kind.name in _MANTISSA:
        flat = _normal(_other(like), count, np.dtype(np.float32), seed, stream, at).astype(kind)
    else:
        flat = _normal(_other(like), count, kind, seed, stream, at)
    return np.reshape(flat, shape)


def bernoulli(
    shape: Shape, p: float, seed: int, stream: int, offset: Place = 0, like: Array | None = None
) -> Array:
    """True with probability `p`, elementwise.

    Parameters
    ----------
    shape : tuple of int
    p : float
        From 0 (never) to 1 (always); a probability above 0 is at least 2**-32.
    seed, stream, offset, like
        As in :func:`uniform`.

    Returns
    -------
    array of bool, of `shape`

    Raises
    ------
    ArgumentError
        If `p` is not in [0, 1].
    """
    threshold = bernoulli_threshold("bernoulli", p)
    count, at = _count("bernoulli", shape, offset)
    return np.reshape(_bernoulli(_other(like), count, threshold, seed, stream, at), shape)


def integers(
    low: int,
    high: int,
    shape: Shape,
    seed: int,
    stream: int,
    offset: Place = 0,
    like: Array | None = None,
) -> Array:
    """Integers from `low` to ``high - 1``, each as likely as the others to within 2**-64.

    Parameters
    ----------
    low, high : int
        Within int64, `low` below `high`.
    shape, seed, stream, offset, like
        As in :func:`uniform`.

    Returns
    -------
    array of int64, of `shape`

    Notes
    -----
    The 64-bit word times the width of the range, shifted right by 64 bits (D. Lemire, "Fast random
    integer generation in an interval", 2019, without the rejection step, which would make an element
    depend on how many words others took). The probabilities of two values differ by at most 2**-64.

    Raises
    ------
    ArgumentError
        If the range is empty or does not fit in int64.
    """
    low, high = operator.index(low), operator.index(high)
    if not -(2**63) <= low < high <= 2**63:
        raise ArgumentError(f"integers: wanted low < high, both within int64, got low={low} and high={high}.")
    count, at = _count("integers", shape, offset)
    words = _doublewords(_other(like), count, seed, stream, at)
    # Unsigned addition wraps, which is what two's complement needs for a negative low.
    flat = _high_half(words, high - low) + (low % 2**64)
    return np.reshape(flat.view(np.int64), shape)


def permutation(n: int, seed: int, stream: int, like: Array | None = None) -> Array:
    """The numbers 0 to n - 1 in random order: the order of `n` 64-bit words, ties by index.

    Returns
    -------
    array of int64, shape (n,)
    """
    count, _ = _count("permutation", (n,), 0)
    words = _doublewords(_other(like), count, seed, stream, 0)
    return np.argsort(words, kind="stable").astype(np.int64)


def bernoulli_threshold(name: str, p: float) -> int:
    """The number of 32-bit words `w` for which ``w * 2**-32 < p``.

    Raises
    ------
    ArgumentError
        If `p` is not in [0, 1]; says so in the name of `name`.
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{name}: wanted a probability p from 0 to 1, got {p}.")
    return math.ceil(p * 2**32)


def _other(like: Array | None) -> Array | None:
    """`like`, unless it is NumPy's: its dtype should not be taken for that of an operand."""
    return None if type(like) is np.ndarray else like


def _checked(
    name: str, dtype: DTypeLike, shape: Shape, offset: Place
) -> tuple[np.dtype[np.generic], int, int | Grid]:
    kind = np.dtype(dtype)
    if kind.name not in ("float32", "float64", *_MANTISSA):
        raise DTypeError(
            f"{name}: wanted float32, float64, float16 or bfloat16, got {kind}. "
            "Draw one of these and convert it with astype."
        )
    return kind, *_count(name, shape, offset)


def _count(name: str, shape: Shape, offset: Place) -> tuple[int, int | Grid]:
    """Return how many elements there are, and where."""
    first = offset.first if isinstance(offset, Positions) else offset
    if first < 0:
        raise ArgumentError(f"{name}: wanted an offset of 0 or more, got {first}.")
    if any(length < 0 for length in shape):
        raise ArgumentError(f"{name}: wanted lengths of 0 or more, got the shape {shape}.")
    return math.prod(shape), grid_of(offset, shape)


def _doublewords(like: Array | None, count: int, seed: int, stream: int, start: int | Grid) -> Array:
    """uint64 words: word i has word 2i of the stream above word 2i + 1."""
    at = start.of_pairs() if isinstance(start, Grid) else 2 * start
    pairs = np.reshape(random_words(like, 2 * count, seed, stream, at), (count, 2)).astype(np.uint64)
    return (pairs[:, 0] << 32) | pairs[:, 1]


def _high_half(words: Array, width: int) -> Array:
    """The high 64 bits of ``words * width``, by halves of 32 bits that cannot overflow."""
    high, low = words >> 32, words & 0xFFFFFFFF
    width_high, width_low = width >> 32, width & 0xFFFFFFFF
    middle = high * width_low + (low * width_low >> 32)
    other = low * width_high + (middle & 0xFFFFFFFF)
    result: Array = high * width_high + (middle >> 32) + (other >> 32)
    return result


def _plain_uniform(
    like: Array | None, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    if dtype == np.float32:
        words = random_words(like, count, seed, stream, offset)
        return (words >> 8).astype(np.float32) * 2.0**-24
    return (_doublewords(like, count, seed, stream, offset) >> 11).astype(np.float64) * 2.0**-53


def _plain_normal(
    like: Array | None, count: int, dtype: np.dtype[np.generic], seed: int, stream: int, offset: int | Grid
) -> Array:
    if dtype == np.float32:
        return normal_from_words(random_words(like, count, seed, stream, offset))
    return normal_from_doublewords(_doublewords(like, count, seed, stream, offset))


def _plain_bernoulli(
    like: Array | None, count: int, threshold: int, seed: int, stream: int, offset: int | Grid
) -> Array:
    # In 64 bits, since the threshold of p = 1 is 2**32.
    return random_words(like, count, seed, stream, offset).astype(np.uint64) < threshold


_uniform = Kernel(_plain_uniform, f"{_FUSED}:uniform", arrays=1, cuda=f"{_CUDA}:uniform", like=True)
_normal = Kernel(_plain_normal, f"{_FUSED}:normal", arrays=1, cuda=f"{_CUDA}:normal", like=True)
_bernoulli = Kernel(_plain_bernoulli, f"{_FUSED}:bernoulli", arrays=1, cuda=f"{_CUDA}:bernoulli", like=True)
