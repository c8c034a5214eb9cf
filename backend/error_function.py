"""The error function, its complement and its inverse, in float64 on NumPy's arrays.

References
----------
W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969), as in his
CALERF. M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
Statistics 37 (1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.quantile import CENTRE_SQUARE, CENTRE_WIDTH, DOUBLE, FAR_TAIL_START, TAIL_SHIFT

__all__ = ["erf_float64", "erfc_float64", "erfinv_float64"]

# Highest power first; the leading 1 of monic denominators is written out.
_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_FAR = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip
_SMALL_END, _MIDDLE_END = 0.46875, 4.0
# Above 4, 1 - erf(x) is below 1.6e-8, and above 6 it vanishes beside 1 in double precision; the middle
# formula stays within 1e-9 relative of it that far, which leaves an error of 2e-17 in erf.
_SATURATION = 6.0
_UNDERFLOW = 27.5  # erfc is 0 from here on


def erf_float64(x: Array) -> Array:
    """The error function."""
    magnitude = np.abs(x)
    small = magnitude <= _SMALL_END
    far = np.clip(magnitude, _SMALL_END, _SATURATION)
    complement = _exp_of_square(far) * _ratio(_MIDDLE, far)
    return np.where(small, _near_zero(np.where(small, x, 0.0)), np.copysign(1.0 - complement, x))


def erfc_float64(x: Array) -> Array:
    """``1 - erf(x)``, exact to the last digits where erf is nearly 1."""
    magnitude = np.abs(x)
    small = magnitude <= _SMALL_END
    near = 1.0 - _near_zero(np.where(small, x, 0.0))
    middle = np.clip(magnitude, _SMALL_END, _MIDDLE_END)
    far = np.clip(magnitude, _MIDDLE_END, _UNDERFLOW)
    square = 1.0 / (far * far)
    tail = (1.0 / math.sqrt(math.pi) - square * _ratio(_FAR, square)) / far
    scaled = np.where(magnitude <= _MIDDLE_END, _ratio(_MIDDLE, middle), tail)
    decayed = _exp_of_square(np.minimum(magnitude, _UNDERFLOW)) * scaled
    return np.where(small, near, np.where(x < 0, 2.0 - decayed, decayed))


def erfinv_float64(y: Array) -> Array:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond."""
    half = 0.5 * y  # the normal quantile of 1/2 + half, over the square root of 2
    with np.errstate(invalid="ignore", divide="ignore"):
        r = CENTRE_SQUARE - half * half
        centre = half * _ratio(DOUBLE.centre, np.maximum(r, 0.0))
        rest = 0.5 * (1.0 - np.abs(y))  # exact near the ends, where it matters
        root = np.sqrt(-np.log(np.where(rest > 0, rest, 1.0)))
        assert DOUBLE.far_tail is not None
        tail = np.where(
            root <= FAR_TAIL_START,
            _ratio(DOUBLE.tail, root - TAIL_SHIFT),
            _ratio(DOUBLE.far_tail, root - FAR_TAIL_START),
        )
        result = np.where(np.abs(half) <= CENTRE_WIDTH, centre, np.copysign(tail, y)) * math.sqrt(0.5)
    return np.where(np.abs(y) < 1, result, np.where(np.abs(y) == 1, np.copysign(np.inf, y), np.nan))


def _near_zero(x: Array) -> Array:
    return x * _ratio(_SMALL, x * x)


def _exp_of_square(x: Array) -> Array:
    """``exp(-x * x)``. A rounded square would lose digits: it is split in a short head and the rest."""
    head = np.trunc(x * 16.0) / 16.0  # whose square is exact
    return np.exp(-head * head) * np.exp(-(x - head) * (x + head))


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    result: Array = _polynomial(coefficients[0], x) / _polynomial(coefficients[1], x)
    return result


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    result = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result *= x
        result += coefficient
    return result
