"""exp and erf for compiled kernels, in forms that LLVM turns into vector instructions.

numba calls the C library one element at a time for these, several times slower than NumPy. In float32
they are polynomials and rational functions without branches, so that a loop over them vectorises
(largest errors measured over the whole range: exp 1.1 ulp, erf 5.5 ulp, gradual underflow
included). In float64 exp is of that form too (1 ulp), and erf the C library's.
NaN goes through; comparisons are written so that it fails them and stays.

References
----------
Cephes ``expf`` (S. Moshier); fdlibm ``exp`` (Sun Microsystems 1993); Eigen's rational approximation of erf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import POINTWISE, device

__all__ = ["difference_plus", "erf", "exp", "exp_of_negative", "expm1_parts", "power_of_two", "row_maximum"]

_ONE = np.float32(1)
_HALF = np.float32(0.5)

_EXP_LOW, _EXP_HIGH = np.float32(-110), np.float32(89)  # beyond them float32 gives 0 and infinity
_LOG2E = np.float32(1.44269504088896341)
# ln 2 in two parts: n * _LN2_HIGH is exact, so the remainder keeps its last bits.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_E0, _E1, _E2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_E3, _E4, _E5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)

# For exponents of at most 0 one factor will do, if it is kept clear of the range's end and lowered at last.
_DOWN_LOW, _LIFT, _LOWER = np.float32(-104), np.float32(32), np.float32(2.0**-32)

_EXP_LOW_64, _EXP_HIGH_64 = -750.0, 710.0
_LOG2E_64 = 1.44269504088896338700
_LN2_HIGH_64, _LN2_LOW_64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_P1, _P2, _P3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_P4, _P5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08

_ERF_LIMIT = np.float32(4)
_A0, _A1 = np.float32(-2.72614225801306e-10), np.float32(2.77068142495902e-08)
_A2, _A3 = np.float32(-2.10102402082508e-06), np.float32(-5.69250639462346e-05)
_A4, _A5 = np.float32(-7.34990630326855e-04), np.float32(-2.95459980854025e-03)
_A6 = np.float32(-1.60960333262415e-02)
_B0, _B1 = np.float32(-1.45660718464996e-05), np.float32(-2.13374055278905e-04)
_B2, _B3 = np.float32(-1.68282697438203e-03), np.float32(-7.37332916720468e-03)
_B4 = np.float32(-1.42647390514189e-02)

_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)
# Added to a whole number, this leaves it in the lowest bits: converting it to int64 is a vector instruction
# on few processors.
_WHOLE_64 = 1.5 * 2.0**52
_BIAS_64, _MANTISSA_BITS_64 = np.int64(1023), np.int64(52)
_MAGNITUDE32, _LOWEST32 = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
_MAGNITUDE64, _LOWEST64 = np.int64(0x7FFFFFFFFFFFFFFF), np.int64(-0x8000000000000000)


def power_of_two(n: Any) -> Any:
    """2 to the power of a whole number `n` that keeps the result in the normal range."""
    return math.ldexp(1.0, int(n))


def _power_of_two32(n: np.float32) -> np.float32:
    return np.int32(np.int32(np.int32(n) + _BIAS) << _MANTISSA_BITS).view(np.float32)


def _power_of_two64(n: float) -> float:
    bits = np.float64(n + _WHOLE_64).view(np.int64)
    return np.int64((bits + _BIAS_64) << _MANTISSA_BITS_64).view(np.float64)


@device()
def difference_plus(x: float, y: float, small: float) -> float:
    """``(x - y) + small`` in this order: a kernel that may reassociate would lose `small` in x or y."""
    return (x - y) + small


def expm1_parts(x: Any) -> tuple[Any, Any]:
    """A whole number ``n`` and ``exp(x - n * log(2)) - 1``; `x` is first cut where exp is 0 or infinite."""
    n = math.floor(x / math.log(2.0) + 0.5)
    return n, math.expm1(x - n * math.log(2.0))


def _expm1_parts32(x: Any) -> tuple[Any, Any]:
    x = _EXP_LOW if x < _EXP_LOW else x
    x = _EXP_HIGH if x > _EXP_HIGH else x
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    return n, p * r * r + r


def _expm1_parts64(x: float) -> tuple[float, float]:
    x = _EXP_LOW_64 if x < _EXP_LOW_64 else x
    x = _EXP_HIGH_64 if x > _EXP_HIGH_64 else x
    n = np.floor(x * _LOG2E_64 + 0.5)
    high, low = x - n * _LN2_HIGH_64, n * _LN2_LOW_64
    r = high - low
    z = r * r
    c = r - z * (_P1 + z * (_P2 + z * (_P3 + z * (_P4 + z * _P5))))
    return n, (r * c / (2.0 - c) - low) + high


def _exp32(x: Any) -> Any:
    n, part = expm1_parts(x)
    # Two factors, since 2**n alone leaves the range of float32 before exp does.
    half = np.floor(n * _HALF)
    return (part + _ONE) * power_of_two(half) * power_of_two(n - half)


def _exp_of_negative32(x: Any) -> Any:
    x = _DOWN_LOW if x < _DOWN_LOW else x
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    return (p * r * r + r + _ONE) * power_of_two(n + _LIFT) * _LOWER


def _erf32(x: np.float32) -> np.float32:
    x = -_ERF_LIMIT if x < -_ERF_LIMIT else x
    x = _ERF_LIMIT if x > _ERF_LIMIT else x
    z = x * x
    p = ((((((_A0 * z + _A1) * z + _A2) * z + _A3) * z + _A4) * z + _A5) * z + _A6) * x
    return p / ((((_B0 * z + _B1) * z + _B2) * z + _B3) * z + _B4)


def _row_maximum32(row: Array, n: int) -> np.float32:
    # As integers (sign folded), floats keep their order, and an integer maximum vectorises where a
    # float one, which has to respect NaN, does not.
    highest = _LOWEST32
    for j in range(n):
        bits = np.float32(row[j]).view(np.int32)
        highest = max(highest, np.int32(bits ^ ((bits >> np.int32(31)) & _MAGNITUDE32)))
    return np.int32(highest ^ ((highest >> np.int32(31)) & _MAGNITUDE32)).view(np.float32)


def _row_maximum64(row: Array, n: int) -> np.float64:
    highest = _LOWEST64
    for j in range(n):
        bits = np.float64(row[j]).view(np.int64)
        highest = max(highest, bits ^ ((bits >> np.int64(63)) & _MAGNITUDE64))
    return np.int64(highest ^ ((highest >> np.int64(63)) & _MAGNITUDE64)).view(np.float64)


def _exp64(x: Any) -> Any:
    n, part = expm1_parts(x)
    half = np.floor(n * 0.5)
    return (part + 1.0) * power_of_two(half) * power_of_two(n - half)


def _erf64(x: float) -> float:
    return math.erf(x)


def exp(x: float) -> float:
    """e to the power `x`, in `x`'s precision."""
    return math.exp(x)


def exp_of_negative(x: float) -> float:
    """``exp(x)`` for `x` of at most 0 (or a little more): as exact, and a fifth faster."""
    return math.exp(x)


def erf(x: float) -> float:
    """The error function of `x`, in `x`'s precision."""
    return math.erf(x)


def row_maximum(row: Array, n: int) -> float:
    """The largest of the first `n` elements; -NaN may be missed, so let NaN reach a sum as well."""
    return float(np.max(row[:n]))


def _power_of_two_for(n: object) -> Callable[..., object]:
    return _power_of_two32 if n == numba.types.float32 else _power_of_two64


def _expm1_parts_for(x: object) -> Callable[..., object]:
    return _expm1_parts32 if x == numba.types.float32 else _expm1_parts64


def _exp_for(x: object) -> Callable[..., object]:
    return _exp32 if x == numba.types.float32 else _exp64


def _exp_of_negative_for(x: object) -> Callable[..., object]:
    return _exp_of_negative32 if x == numba.types.float32 else _exp64


def _erf_for(x: object) -> Callable[..., object]:
    return _erf32 if x == numba.types.float32 else _erf64


def _row_maximum_for(row: numba.types.Array, n: object) -> Callable[..., object]:
    return _row_maximum32 if row.dtype == numba.types.float32 else _row_maximum64


# Inside compiled code the public names mean the version for their argument's type. (Not strict:
# numba would compare annotations too, and they differ by nature.)
overload(power_of_two, jit_options=POINTWISE, strict=False)(_power_of_two_for)
overload(expm1_parts, jit_options=POINTWISE, strict=False)(_expm1_parts_for)
overload(exp, jit_options=POINTWISE, strict=False)(_exp_for)
overload(exp_of_negative, jit_options=POINTWISE, strict=False)(_exp_of_negative_for)
overload(erf, jit_options=POINTWISE, strict=False)(_erf_for)
overload(row_maximum, jit_options=POINTWISE, strict=False)(_row_maximum_for)
