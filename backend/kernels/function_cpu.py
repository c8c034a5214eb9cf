"""erf, expm1 and log1p for compiled kernels, to about one unit in the last place.

As in ``math_cpu.py``, they have no branches in float32, so that loops over them become vector instructions;
in float64 they are the C library's. Largest errors: erf 1.0 ulp, expm1 and log1p 1.5.

References
----------
N. Juffa's minimax polynomials of ``erff``; Cephes ``expf`` (S. Moshier).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from shardwise.backend.kernels.jit import POINTWISE, device
from shardwise.backend.kernels.math_cpu import power_of_two

__all__ = ["erf", "expm1", "log1p"]

_ONE, _TWO = np.float32(1), np.float32(2)
_SIGN = np.int32(-0x80000000)

# erf(x) is x + x * S(x * x) near 0, and 1 - exp(-x - x * T(x)) from the seam on.
_ERF_SEAM, _ERF_LIMIT = np.float32(0.927734375), np.float32(4)  # from the limit on float32 gives 1
_S0, _S1, _S2 = np.float32(-5.96761703e-4), np.float32(4.99119423e-3), np.float32(-2.67681349e-2)
_S3, _S4, _S5 = np.float32(1.12819925e-1), np.float32(-3.76125336e-1), np.float32(1.28379166e-1)
_T0, _T1, _T2 = np.float32(-1.72853470e-5), np.float32(3.83197126e-4), np.float32(-3.88396438e-3)
_T3, _T4, _T5 = np.float32(2.42546219e-2), np.float32(-1.06777877e-1), np.float32(-6.34846687e-1)
_T6 = np.float32(-1.28717512e-1)

# exp, as in math_cpu.py, but without its cuts: two pairs of them, and LLVM makes branches of them.
_HALF, _LOG2E = np.float32(0.5), np.float32(1.44269504088896341)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_E0, _E1, _E2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_E3, _E4, _E5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)

_EXPM1_LOW = np.float32(-30)  # where float32 gives -1

# log1p(x) is 2 atanh(s) with s = x / (2 + x): a series in the square of s.
_L1, _L2, _L3 = np.float32(2 / 3), np.float32(2 / 5), np.float32(2 / 7)
_L4, _L5, _L6, _L7 = np.float32(2 / 9), np.float32(2 / 11), np.float32(2 / 13), np.float32(2 / 15)


@device()
def _bits(x: np.float32) -> np.int32:
    return np.float32(x).view(np.int32)


@device()
def _either(condition: Any, x: np.float32, y: np.float32) -> Any:
    """``x if condition else y``, without the branch that LLVM would make of it to spare one of them."""
    mask = np.int32(-np.int32(condition))
    return np.int32(np.int32(_bits(x) & mask) | np.int32(_bits(y) & np.int32(~mask))).view(np.float32)


@device()
def _signed(size: np.float32, like: np.float32) -> Any:
    return np.int32(_bits(size) | np.int32(_bits(like) & _SIGN)).view(np.float32)


@device()
def _parts(x: np.float32) -> tuple[np.float32, np.float32]:
    """A whole number ``n`` and ``exp(x - n * log(2)) - 1``, for an x whose exp is normal."""
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    return n, p * r * r + r


def _erf32(x: np.float32) -> Any:
    size = abs(x)
    z = size * size
    near = (((((_S0 * z + _S1) * z + _S2) * z + _S3) * z + _S4) * z + _S5) * size + size
    t = _ERF_LIMIT if size > _ERF_LIMIT else size
    p = (_T0 * t + _T1) * (t * t) + (_T2 * t + _T3)
    n, part = _parts((((p * t + _T4) * t + _T5) * t + _T6) * t - t)
    far = _ONE - (part + _ONE) * power_of_two(n)
    return _signed(_either(size > _ERF_SEAM, far, near), x)


def _expm1_32(x: np.float32) -> Any:
    x = _EXPM1_LOW if x < _EXPM1_LOW else x
    n, part = _parts(x)
    power = power_of_two(n)
    return power * part + (power - _ONE)


def _log1p_32(x: np.float32) -> np.float32:
    s = x / (_TWO + x)
    z = s * s
    p = ((((((_L7 * z + _L6) * z + _L5) * z + _L4) * z + _L3) * z + _L2) * z + _L1) * z
    return _TWO * s + s * p


def _erf64(x: float) -> float:
    return math.erf(x)


def _expm1_64(x: float) -> float:
    return math.expm1(x)


def _log1p_64(x: float) -> float:
    return math.log1p(x)


def erf(x: float) -> float:
    """The error function of `x`, in `x`'s precision."""
    return math.erf(x)


def expm1(x: float) -> float:
    """``exp(x) - 1`` for `x` of at most 0, in its precision."""
    return math.expm1(x)


def log1p(x: float) -> float:
    """``log(1 + x)`` for `x` from 0 to 1, in its precision."""
    return math.log1p(x)


def _erf_for(x: object) -> Callable[..., object]:
    return _erf32 if x == numba.types.float32 else _erf64


def _expm1_for(x: object) -> Callable[..., object]:
    return _expm1_32 if x == numba.types.float32 else _expm1_64


def _log1p_for(x: object) -> Callable[..., object]:
    return _log1p_32 if x == numba.types.float32 else _log1p_64


# As in math_cpu.py.
overload(erf, jit_options=POINTWISE, strict=False)(_erf_for)
overload(expm1, jit_options=POINTWISE, strict=False)(_expm1_for)
overload(log1p, jit_options=POINTWISE, strict=False)(_log1p_for)
