"""The normal quantile of one random word, for compiled kernels: ``quantile.py``, operation for operation."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend import quantile
from shardwise.backend.kernels.jit import device

__all__ = ["normal_double", "normal_single"]

_C = tuple(np.float32(value) for value in quantile.SINGLE.centre[0])
_D = tuple(np.float32(value) for value in quantile.SINGLE.centre[1])
_T = tuple(np.float32(value) for value in quantile.SINGLE.tail[0])
_U = tuple(np.float32(value) for value in quantile.SINGLE.tail[1])
_L = tuple(np.float32(value) for value in quantile.SINGLE.logarithm.series)
_LN2_HIGH = np.float32(quantile.SINGLE.logarithm.ln2_high)
_LN2_LOW = np.float32(quantile.SINGLE.logarithm.ln2_low)
_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_WIDTH, _SQUARE = np.float32(quantile.CENTRE_WIDTH), np.float32(quantile.CENTRE_SQUARE)
_SHIFT, _TAIL_SCALE = np.float32(quantile.TAIL_SHIFT), np.float32(2.0**-33)
_MAGNITUDE, _SIGN_SHIFT = np.uint32(0x7FFFFFFF), np.uint32(31)
_ONE_BITS, _ROOT_BITS, _MANTISSA = np.int32(0x3F800000), np.int32(0x3F3504F3), np.int32(0x007FFFFF)

_CC, _DD = quantile.DOUBLE.centre
_TT, _UU = quantile.DOUBLE.tail
_FF, _GG = quantile.DOUBLE.far_tail or ((), ())
_LL, _LN2_HIGH_D, _LN2_LOW_D = quantile.DOUBLE.logarithm
_WIDTH_D, _SQUARE_D, _SHIFT_D = quantile.CENTRE_WIDTH, quantile.CENTRE_SQUARE, quantile.TAIL_SHIFT
_FAR_D, _TAIL_SCALE_D = quantile.FAR_TAIL_START, 2.0**-54
_MAGNITUDE_D, _SIGN_SHIFT_D, _DROPPED = np.uint64(0xFFFFFFFFFFFFF), np.uint64(63), np.uint64(11)
_ONE_BITS_D, _ROOT_BITS_D = np.int64(0x3FF0000000000000), np.int64(0x3FE6A09E667F3BCD)
_MANTISSA_D = np.int64(0x000FFFFFFFFFFFFF)


@device(exact=True)
def _log_single(x: np.float32) -> np.float32:
    bits = np.int32(np.float32(x).view(np.int32) + (_ONE_BITS - _ROOT_BITS))
    exponent = np.float32(np.int32((bits >> np.int32(23)) - np.int32(127)))
    f = np.int32((bits & _MANTISSA) + _ROOT_BITS).view(np.float32) - _ONE
    s = f / (f + _TWO)
    z = s * s
    series = z * (((z * _L[0] + _L[1]) * z + _L[2]) * z + _L[3])
    half_square = f * f * _HALF
    low = s * (half_square + series) + exponent * _LN2_LOW
    return (low - half_square) + f + exponent * _LN2_HIGH


@device(exact=True)
def normal_single(word: np.uint32) -> np.float32:
    """The float32 normal of a uint32 word."""
    upper = np.uint32(word >> _SIGN_SHIFT)
    magnitude = np.uint32(np.uint32(word ^ np.uint32(upper * _MAGNITUDE)) & _MAGNITUDE)
    tail = np.float32(np.uint32(np.uint32(magnitude * np.uint32(2)) + np.uint32(1))) * _TAIL_SCALE
    q = _HALF - tail
    r = _SQUARE - q * q
    centre = q * (
        (((r * _C[0] + _C[1]) * r + _C[2]) * r + _C[3]) / (((r * _D[0] + _D[1]) * r + _D[2]) * r + _D[3])
    )
    r = np.float32(math.sqrt(-_log_single(tail))) - _SHIFT
    outer = (((r * _T[0] + _T[1]) * r + _T[2]) * r + _T[3]) / ((r * _U[0] + _U[1]) * r + _U[2])
    size = centre if q <= _WIDTH else outer
    return -size if upper == np.uint32(0) else size


@device(exact=True)
def _log_double(x: float) -> float:
    bits = np.float64(x).view(np.int64) + (_ONE_BITS_D - _ROOT_BITS_D)
    exponent = np.float64((bits >> np.int64(52)) - np.int64(1023))
    f = np.int64((bits & _MANTISSA_D) + _ROOT_BITS_D).view(np.float64) - 1.0
    s = f / (f + 2.0)
    z = s * s
    series = (((z * _LL[0] + _LL[1]) * z + _LL[2]) * z + _LL[3]) * z + _LL[4]
    series = z * ((series * z + _LL[5]) * z + _LL[6])
    half_square = f * f * 0.5
    low = s * (half_square + series) + exponent * _LN2_LOW_D
    logarithm: float = (low - half_square) + f + exponent * _LN2_HIGH_D
    return logarithm


@device(exact=True)
def _ratio_double(top: tuple[float, ...], bottom: tuple[float, ...], x: float) -> float:
    a = ((x * top[0] + top[1]) * x + top[2]) * x + top[3]
    a = (((a * x + top[4]) * x + top[5]) * x + top[6]) * x + top[7]
    b = ((x * bottom[0] + bottom[1]) * x + bottom[2]) * x + bottom[3]
    b = (((b * x + bottom[4]) * x + bottom[5]) * x + bottom[6]) * x + bottom[7]
    return a / b


@device(exact=True)
def normal_double(word: np.uint64) -> float:
    """The float64 normal of the top 53 bits of a uint64 word."""
    upper = word >> _SIGN_SHIFT_D
    magnitude = ((word >> _DROPPED) ^ (upper * _MAGNITUDE_D)) & _MAGNITUDE_D
    tail = np.float64(np.int64(magnitude) * np.int64(2) + np.int64(1)) * _TAIL_SCALE_D
    q = 0.5 - tail
    centre = q * _ratio_double(_CC, _DD, _SQUARE_D - q * q)
    root = math.sqrt(-_log_double(tail))
    outer = _ratio_double(_TT, _UU, root - _SHIFT_D)
    if root > _FAR_D:
        outer = _ratio_double(_FF, _GG, root - _FAR_D)
    size = centre if q <= _WIDTH_D else outer
    return -size if upper == np.uint64(0) else size
