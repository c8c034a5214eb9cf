"""Functions made of exponentials for compiled kernels, in forms that LLVM turns into vector instructions.

Like those of ``math_cpu`` they have no branches and let NaN through, in float32 and in float64 (largest
errors measured: 2.5 ulp).

References
----------
fdlibm's ``expm1`` and ``log1p`` (Sun Microsystems 1993); Cephes ``expf`` (S. Moshier).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from shardwise.backend.kernels.jit import POINTWISE
from shardwise.backend.kernels.scalar.math_cpu import exp_of_negative, expm1_parts, power_of_two

__all__ = ["expm1_of_negative", "log1p_of_unit", "sigmoid", "tanh"]

_ROOT_LESS_ONE = math.sqrt(2.0) - 1.0
_LN2 = math.log(2.0)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10

_ROOT_LESS_ONE32 = np.float32(_ROOT_LESS_ONE)
_LN2_HIGH32 = np.float32(_LN2)
_LN2_LOW32 = np.float32(_LN2 - float(np.float32(_LN2)))
# log((1 + s) / (1 - s)) is 2 s + s * R(s * s); the coefficients of R, lowest first.
_L0, _L1, _L2, _L3 = (
    np.float32(0.66666662693), np.float32(0.40000972152), np.float32(0.28498786688), np.float32(0.24279078841)
)  # fmt: skip
_G0, _G1, _G2 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_G3, _G4 = 2.222219843214978396e-01, 1.818357216161805012e-01
_G5, _G6 = 1.531383769920937332e-01, 1.479819860511658591e-01

_LOWEST32, _LOWEST64 = np.float32(-60), -60.0  # from there on expm1 is -1


def _expm1_32(x: Any) -> Any:
    x = _LOWEST32 if x < _LOWEST32 else x
    n, part = expm1_parts(x)
    scale = power_of_two(n)
    return scale * part + (scale - np.float32(1))


def _expm1_64(x: Any) -> Any:
    x = _LOWEST64 if x < _LOWEST64 else x
    n, part = expm1_parts(x)
    scale = power_of_two(n)
    return scale * part + (scale - 1.0)


def _log1p_32(x: Any) -> Any:
    one, half, two = np.float32(1), np.float32(0.5), np.float32(2)
    low = x <= _ROOT_LESS_ONE32
    f = x if low else half * (x - one)
    high_part = np.float32(0) if low else _LN2_HIGH32
    low_part = np.float32(0) if low else _LN2_LOW32
    s = f / (two + f)
    z = s * s
    r = z * (_L0 + z * (_L1 + z * (_L2 + z * _L3)))
    square = half * f * f
    return high_part - ((square - (s * (square + r) + low_part)) - f)


def _log1p_64(x: float) -> float:
    low = x <= _ROOT_LESS_ONE
    f = x if low else 0.5 * (x - 1.0)
    high_part = 0.0 if low else _LN2_HIGH
    low_part = 0.0 if low else _LN2_LOW
    s = f / (2.0 + f)
    z = s * s
    r = z * (_G0 + z * (_G1 + z * (_G2 + z * (_G3 + z * (_G4 + z * (_G5 + z * _G6))))))
    square = 0.5 * f * f
    return high_part - ((square - (s * (square + r) + low_part)) - f)


def expm1_of_negative(x: float) -> float:
    """``exp(x) - 1`` for `x` not above 0, in `x`'s precision; near 0 without cancellation."""
    return math.expm1(x)


def log1p_of_unit(x: float) -> float:
    """``log(1 + x)`` for `x` from 0 to 1, in `x`'s precision."""
    return math.log1p(x)


def sigmoid(x: float) -> float:
    """``1 / (1 + exp(-x))``, in `x`'s precision."""
    return 1.0 / (1.0 + math.exp(-x))


def tanh(x: float) -> float:
    """The hyperbolic tangent of `x`, in `x`'s precision."""
    return math.tanh(x)


def _sigmoid(x: float) -> float:
    real = type(x)
    one = real(1)
    e = exp_of_negative(-abs(x))
    r = one / (one + e)
    left = e * r
    return left if x < real(0) else r


def _tanh(x: float) -> float:
    real = type(x)
    t = expm1_of_negative(real(-2) * abs(x))
    y = -t / (real(2) + t)
    return -y if x < real(0) else y


def _expm1_for(x: object) -> Callable[..., object]:
    return _expm1_32 if x == numba.types.float32 else _expm1_64


def _log1p_for(x: object) -> Callable[..., object]:
    return _log1p_32 if x == numba.types.float32 else _log1p_64


def _sigmoid_for(x: object) -> Callable[..., object]:
    return _sigmoid


def _tanh_for(x: object) -> Callable[..., object]:
    return _tanh


# See math_cpu.
overload(expm1_of_negative, jit_options=POINTWISE, strict=False)(_expm1_for)
overload(log1p_of_unit, jit_options=POINTWISE, strict=False)(_log1p_for)
overload(sigmoid, jit_options=POINTWISE, strict=False)(_sigmoid_for)
overload(tanh, jit_options=POINTWISE, strict=False)(_tanh_for)
