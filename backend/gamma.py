"""The logarithm of the gamma function and its derivatives, in float64 on NumPy's arrays.

References
----------
lgamma: fdlibm's ``e_lgamma_r.c`` (Sun Microsystems, 1993): polynomials around the zeros at 1 and 2 and the
minimum between them, and Stirling's series above 8. digamma: the rational approximation on [1, 2] of
Boost's ``digamma.hpp`` (John Maddock, 2006), recurrence, and the asymptotic series above 10. polygamma:
the Hurwitz zeta function by Euler and Maclaurin's formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array

__all__ = ["digamma_float64", "lgamma_float64", "polygamma_float64"]

# Lowest power first, as in the sources.
_AT_TWO = (
    (7.72156649015328655494e-02, 6.73523010531292681824e-02, 7.38555086081402883957e-03,
     1.19270763183362067845e-03, 2.20862790713908385557e-04, 2.52144565451257326939e-05),
    (3.22467033424113591611e-01, 2.05808084325167332806e-02, 2.89051383673415629091e-03,
     5.10069792153511336608e-04, 1.08011567247583939954e-04, 4.48640949618915160150e-05),
)  # fmt: skip
_LOWEST, _LOWEST_HIGH, _LOWEST_LOW = (
    1.46163214496836224576e00, -1.21486290535849611461e-01, -3.63867699703950536541e-18,
)  # fmt: skip
_AT_LOWEST = (
    4.83836122723810047042e-01, -1.47587722994593911752e-01, 6.46249402391333854778e-02,
    -3.27885410759859649565e-02, 1.79706750811820387126e-02, -1.03142241298341437450e-02,
    6.10053870246291332635e-03, -3.68452016781138256760e-03, 2.25964780900612472250e-03,
    -1.40346469989232843813e-03, 8.81081882437654011382e-04, -5.38595305356740546715e-04,
    3.15632070903625950361e-04, -3.12754168375120860518e-04, 3.35529192635519073543e-04,
)  # fmt: skip
_AT_ONE = (
    (-7.72156649015328655494e-02, 6.32827064025093366517e-01, 1.45492250137234768737e00,
     9.77717527963372745603e-01, 2.28963728064692451092e-01, 1.33810918536787660377e-02),
    (1.0, 2.45597793713041134822e00, 2.12848976379893395361e00, 7.69285150456672783825e-01,
     1.04222645593369134254e-01, 3.21709242282423911810e-03),
)  # fmt: skip
_ABOVE_TWO = (
    (-7.72156649015328655494e-02, 2.14982415960608852501e-01, 3.25778796408930981787e-01,
     1.46350472652464452805e-01, 2.66422703033638609560e-02, 1.84028451407337715652e-03,
     3.19475326584100867617e-05),
    (1.0, 1.39200533467621045958e00, 7.21935547567138069525e-01, 1.71933865632803078993e-01,
     1.86459191715652901344e-02, 7.77942496381893596434e-04, 7.32668430744625636189e-06),
)  # fmt: skip
_STIRLING = (
    4.18938533204672725052e-01, 8.33333333333329678849e-02, -2.77777777728775536470e-03,
    7.93650558643019558500e-04, -5.95187557450339963135e-04, 8.36339918996282139126e-04,
    -1.63092934096575273989e-03,
)  # fmt: skip

_DIGAMMA_OFFSET = 0.99558162689208984375
_DIGAMMA_ROOT = (  # the positive zero, in three pieces of which the first are short
    1569415565.0 / 1073741824.0, (381566830.0 / 1073741824.0) / 1073741824.0,
    0.9016312093258695918615325266959189453125e-19,
)  # fmt: skip
_DIGAMMA = (
    (0.25479851061131551, -0.32555031186804491, -0.65031853770896507, -0.28919126444774784,
     -0.045251321448739056, -0.0020713321167745952),
    (1.0, 2.0767117023730469, 1.4606242909763515, 0.43593529692665969, 0.054151797245674225,
     0.0021284987017821144, -0.55789841321675513e-6),
)  # fmt: skip
_BERNOULLI = (  # B(2), B(4), ...
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip


def lgamma_float64(x: Array) -> Array:
    """``log(|gamma(x)|)``: infinite at 0, the negative integers and both infinities."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        magnitude = np.abs(x)
        positive = _lgamma_positive(magnitude)
        # gamma(x) gamma(-x) = -pi / (x sin(pi x))
        sine = _sin_pi(magnitude)
        mirrored = math.log(math.pi) - np.log(np.abs(sine * magnitude)) - positive
        result = np.where(x > 0, positive, np.where(sine == 0, np.inf, mirrored))
        tiny = magnitude < 2.0**-70
        return np.where(np.isinf(x), np.inf, np.where(tiny, -np.log(magnitude), result))


def _lgamma_positive(x: Array) -> Array:
    """For ``x >= 0``; every piece is computed, on numbers where it is finite, and one is chosen."""
    below = x <= 0.9  # reached from one higher: lgamma(x) = lgamma(x + 1) - log(x)
    start = np.where(below, -np.log(np.where(below, x, 1.0)), 0.0)
    y = np.where(below, x + 1.0, x)
    # Around 2, around the minimum, and around 1.
    low = np.clip(y, 0.0, 3.0)
    z = 2.0 - low
    square = z * z
    at_two = z * _polynomial(_AT_TWO[0], square) + square * _polynomial(_AT_TWO[1], square) - 0.5 * z
    z = low - _LOWEST
    at_lowest = _LOWEST_HIGH + (z * z * _polynomial(_AT_LOWEST, z) + _LOWEST_LOW)
    z = low - 1.0
    at_one = z * (_polynomial(_AT_ONE[0], z) / _polynomial(_AT_ONE[1], z)) - 0.5 * z
    near = np.where(y >= 1.7316, at_two, np.where(y >= 1.2316, at_lowest, at_one))
    # From 2 to 8: down to [2, 3) by the recurrence.
    middle = np.clip(y, 2.0, 8.0)
    whole = np.minimum(np.floor(middle), 7.0)
    z = middle - whole
    product = np.ones_like(z)
    for step in range(6, 1, -1):
        product = np.where(whole > step, product * (z + float(step)), product)
    ratio = _polynomial(_ABOVE_TWO[0], z) / _polynomial(_ABOVE_TWO[1], z)
    between = 0.5 * z + z * ratio + np.log(product)
    # Above: Stirling's series.
    far = np.maximum(y, 8.0)
    z = 1.0 / far
    series = _STIRLING[0] + z * _polynomial(_STIRLING[1:], z * z)
    logarithm = np.log(far)
    stirling = (far - 0.5) * (logarithm - 1.0) + series
    stirling = np.where(far < 2.0**58, stirling, far * (logarithm - 1.0))
    return np.where(y < 2.0, start + near, np.where(y < 8.0, between, stirling))


def digamma_float64(x: Array) -> Array:
    """The derivative of lgamma: infinite at 0, NaN at the negative integers."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mirror = x < 0
        y = np.where(mirror, 1.0 - x, x)
        result = np.where(mirror, -math.pi / np.tan(math.pi * (x - np.round(x))), 0.0)
        below = y < 1.0  # into [1, 2], or above 10
        result = np.where(below, result - 1.0 / np.where(below, y, 1.0), result)
        y = np.where(below, y + 1.0, y)
        middle = y < 10.0
        z = np.where(middle, y, 1.5)
        total = np.zeros_like(z)
        for _ in range(8):
            high = z > 2.0
            z = np.where(high, z - 1.0, z)
            total = np.where(high, total + 1.0 / z, total)
        distance = ((z - _DIGAMMA_ROOT[0]) - _DIGAMMA_ROOT[1]) - _DIGAMMA_ROOT[2]
        ratio = _polynomial(_DIGAMMA[0], z - 1.0) / _polynomial(_DIGAMMA[1], z - 1.0)
        near = distance * _DIGAMMA_OFFSET + distance * ratio
        far = np.maximum(y, 10.0)
        square = 1.0 / (far * far)
        series = _polynomial([b / (2 * k) for k, b in enumerate(_BERNOULLI[:7], 1)], square)
        distant = np.log(far) - 0.5 / far - square * series
        result = result + np.where(middle, total + near, distant)
        result = np.where(x == 0, -np.copysign(np.inf, x), result)
        return np.where(np.logical_or(np.logical_and(x < 0, x == np.floor(x)), x == -np.inf), np.nan, result)


def polygamma_float64(n: int, x: Array) -> Array:
    """The derivative of order `n` of digamma; infinite at 0 and the negative integers."""
    if n == 0:
        return digamma_float64(x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mirror = x < 0.5
        y = np.where(mirror, 1.0 - x, x)
        result = (-1.0) ** (n + 1) * math.factorial(n) * _zeta(n + 1, y)
        # (-1)^n psi_n(1 - x) - psi_n(x) = pi d^n/dx^n cot(pi x), a polynomial of the cotangent
        cotangent = 1.0 / np.tan(math.pi * (x - np.round(x)))
        slope = _polynomial([float(c) for c in _cotangent_derivative(n)], cotangent) * math.pi ** (n + 1)
        result = np.where(mirror, (-1.0) ** n * result - slope, result)
        pole = np.logical_and(x <= 0, x == np.floor(x))
        return np.where(pole, math.inf if n % 2 else -math.inf, result)


def _zeta(s: int, a: Array) -> Array:
    """Hurwitz' zeta function, the sum of ``(a + k) ** -s`` over k, for ``a >= 1/2``."""
    steps = 10
    total = np.zeros_like(a)
    for k in range(steps):
        total = total + (a + k) ** -float(s)
    b = a + steps
    total = total + b ** (1.0 - s) / (s - 1.0) + 0.5 * b ** -float(s)
    factor, square = float(s), b * b
    term = b ** (-s - 1.0)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * k) * factor * term
        factor *= (s + 2 * k - 1.0) * (s + 2.0 * k)
        term = term / square
    return total


def _cotangent_derivative(n: int) -> list[int]:
    """The coefficients, lowest power first, of the `n`-th derivative of the cotangent in cotangents."""
    coefficients = [0, 1]
    for _ in range(n):  # c' = -(1 + c * c)
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        padded = [*slope, 0, 0]
        coefficients = [-(c + (padded[k - 2] if k >= 2 else 0)) for k, c in enumerate(padded)]
    return coefficients


def _sin_pi(x: Array) -> Array:
    """``|sin(pi x)|`` for ``x >= 0``, exactly 0 at integers."""
    rest: Array = np.abs(np.sin(math.pi * (x - np.round(x))))
    return rest


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Evaluate a polynomial whose coefficients are given lowest power first."""
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result
