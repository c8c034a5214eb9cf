"""erf for compiled kernels, to one unit in the last place; that of ``math_cpu.py`` is quicker and less exact.

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
from shardwise.backend.kernels.scalar.math_cpu import power_of_two

__all__ = ["exact_erf"]

_ONE, _HALF = np.float32(1), np.float32(0.5)
_SIGN = np.int32(-0x80000000)

# erf(x) is x + x * S(x * x) near 0, and 1 - exp(-x - x * T(x)) from the seam on; 1 from the limit on.
_SEAM, _LIMIT = np.float32(0.927734375), np.float32(4)
_S0, _S1, _S2 = np.float32(-5.96761703e-4), np.float32(4.99119423e-3), np.float32(-2.67681349e-2)
_S3, _S4, _S5 = np.float32(1.12819925e-1), np.float32(-3.76125336e-1), np.float32(1.28379166e-1)
_T0, _T1, _T2 = np.float32(-1.72853470e-5), np.float32(3.83197126e-4), np.float32(-3.88396438e-3)
_T3, _T4, _T5 = np.float32(2.42546219e-2), np.float32(-1.06777877e-1), np.float32(-6.34846687e-1)
_T6 = np.float32(-1.28717512e-1)

# exp of what lies between -17 and -0.9; that of math_cpu.py cuts its argument, and of both cuts LLVM makes
# branches.
_LOG2E = np.float32(1.44269504088896341)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_E0, _E1, _E2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_E3, _E4, _E5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)


@device()
def _bits(x: np.float32) -> Any:
    return np.float32(x).view(np.int32)


@device()
def _either(condition: Any, x: np.float32, y: np.float32) -> Any:
    """``x if condition else y``, without the branch that LLVM would make of it to spare one of them."""
    mask = np.int32(-np.int32(condition))
    return np.int32(np.int32(_bits(x) & mask) | np.int32(_bits(y) & np.int32(~mask))).view(np.float32)


@device()
def _signed(size: np.float32, like: np.float32) -> Any:
    return np.int32(_bits(size) | np.int32(_bits(like) & _SIGN)).view(np.float32)


def _erf32(x: np.float32) -> Any:
    size = abs(x)
    z = size * size
    near = (((((_S0 * z + _S1) * z + _S2) * z + _S3) * z + _S4) * z + _S5) * size + size
    t = _LIMIT if size > _LIMIT else size
    p = (_T0 * t + _T1) * (t * t) + (_T2 * t + _T3)
    exponent = (((p * t + _T4) * t + _T5) * t + _T6) * t - t
    n = np.floor(exponent * _LOG2E + _HALF)
    r = exponent - n * _LN2_HIGH - n * _LN2_LOW
    q = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    far = _ONE - (q * r * r + r + _ONE) * power_of_two(n)
    return _signed(_either(size > _SEAM, far, near), x)


def _erf64(x: float) -> float:
    return math.erf(x)


def exact_erf(x: float) -> float:
    """The error function of `x`, in `x`'s precision."""
    return math.erf(x)


def _erf_for(x: object) -> Callable[..., object]:
    return _erf32 if x == numba.types.float32 else _erf64


# As in math_cpu.py.
overload(exact_erf, jit_options=POINTWISE, strict=False)(_erf_for)
