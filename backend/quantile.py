"""Random words to normal numbers, bit for bit the same on every machine.

The inverse of the normal distribution function by fixed rational functions. Only additions,
multiplications, divisions, square roots and conversions are used, each of which IEEE 754 rounds in one
way; the logarithm in the tails is a fixed polynomial on the exponent and mantissa, since the logarithms
of C libraries and GPUs differ in the last bit. No multiply-add may be contracted: NumPy and CuPy run one
operation at a time, and the fused version forbids it.

A word `w` of `n` bits becomes the quantile of (w + 1/2) / 2**n. It is worked out from the nearer end, so
that the distribution is symmetric and its tails as fine as the word allows.

References
----------
M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics
37 (1988): PPND7 for float32, PPND16 for float64. The logarithms are those of fdlibm (Sun Microsystems).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shardwise.backend.array import Array

__all__ = [
    "CENTRE_SQUARE",
    "CENTRE_WIDTH",
    "DOUBLE",
    "FAR_TAIL_START",
    "SINGLE",
    "TAIL_SHIFT",
    "Logarithm",
    "Quantile",
    "normal_from_doublewords",
    "normal_from_words",
]


class Logarithm(NamedTuple):
    """fdlibm's logarithm for one precision."""

    series: tuple[float, ...]  # highest power first
    ln2_high: float
    ln2_low: float


class Quantile(NamedTuple):
    """AS 241's rational functions for one precision: numerator and denominator, highest power first."""

    centre: tuple[tuple[float, ...], tuple[float, ...]]
    tail: tuple[tuple[float, ...], tuple[float, ...]]
    far_tail: tuple[tuple[float, ...], tuple[float, ...]] | None  # float32 never gets there
    logarithm: Logarithm


CENTRE_WIDTH = 0.425
CENTRE_SQUARE = 0.180625
TAIL_SHIFT = 1.6
FAR_TAIL_START = 5.0

SINGLE = Quantile(
    centre=(
        (5.9109374720e1, 1.5929113202e2, 5.0434271938e1, 3.3871327179e0),
        (6.7187563600e1, 7.8757757664e1, 1.7895169469e1, 1.0),
    ),
    tail=(
        (1.7023821103e-1, 1.3067284816e0, 2.7568153900e0, 1.4234372777e0),
        (1.2021132975e-1, 7.3700164250e-1, 1.0),
    ),
    far_tail=None,
    logarithm=Logarithm(
        (0.24279078841, 0.28498786688, 0.40000972152, 0.66666662693), 6.9313812256e-01, 9.0580006145e-06
    ),
)

DOUBLE = Quantile(
    centre=(
        (
            *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4),
            *(4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3),
            *(1.3314166789178437745e2, 3.3871328727963666080e0),
        ),
        (
            *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4),
            *(2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2),
            *(4.2313330701600911252e1, 1.0),
        ),
    ),
    tail=(
        (
            *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1),
            *(1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0),
            *(4.63033784615654529590e0, 1.42343711074968357734e0),
        ),
        (
            *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2),
            *(1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0),
            *(2.05319162663775882187e0, 1.0),
        ),
    ),
    far_tail=(
        (
            *(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3),
            *(2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0),
            *(5.46378491116411436990e0, 6.65790464350110377720e0),
        ),
        (
            *(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5),
            *(7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1),
            *(5.99832206555887937690e-1, 1.0),
        ),
    ),
    logarithm=Logarithm(
        (
            *(1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01),
            *(2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01),
            6.666666666666735130e-01,
        ),
        6.93147180369123816490e-01,
        1.90821492927058770002e-10,
    ),
)


def normal_from_words(words: Array) -> Array:
    """One float32 normal from each uint32 word: within 1.5e-6 of the quantile, at most 6.34 in size."""
    upper = words >> 31
    odd = ((words ^ (upper * 0x7FFFFFFF)) & 0x7FFFFFFF) * 2 + 1
    tail = odd.astype(np.float32) * 2.0**-33
    return _quantile(upper == 0, tail, _log_single(tail), SINGLE)


def normal_from_doublewords(words: Array) -> Array:
    """One float64 normal from the top 53 bits of each uint64: within 3e-15, at most 8.3 in size."""
    upper = words >> 63
    odd = (((words >> 11) ^ (upper * 0xFFFFFFFFFFFFF)) & 0xFFFFFFFFFFFFF) * 2 + 1
    tail = odd.astype(np.float64) * 2.0**-54
    return _quantile(upper == 0, tail, _log_double(tail), DOUBLE)


def _quantile(negative: Array, tail: Array, logarithm: Array, functions: Quantile) -> Array:
    """The normal quantile of `tail`, in (0, 1/2]; negative where `negative`, else mirrored."""
    q = 0.5 - tail
    centre = q * _ratio(functions.centre, CENTRE_SQUARE - q * q)
    root = np.sqrt(-logarithm)
    outer = _ratio(functions.tail, root - TAIL_SHIFT)
    if functions.far_tail is not None:
        far = _ratio(functions.far_tail, root - FAR_TAIL_START)
        outer = np.where(root <= FAR_TAIL_START, outer, far)
    size = np.where(q <= CENTRE_WIDTH, centre, outer)
    return np.where(negative, -size, size)


def _log_single(x: Array) -> Array:
    bits = x.view(np.int32) + (0x3F800000 - 0x3F3504F3)
    exponent = (bits >> 23) - 127
    mantissa = ((bits & 0x007FFFFF) + 0x3F3504F3).view(np.float32)
    return _log(exponent.astype(np.float32), mantissa - 1.0, SINGLE.logarithm)


def _log_double(x: Array) -> Array:
    bits = x.view(np.int64) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    exponent = (bits >> 52) - 1023
    mantissa = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).view(np.float64)
    return _log(exponent.astype(np.float64), mantissa - 1.0, DOUBLE.logarithm)


def _log(exponent: Array, f: Array, constants: Logarithm) -> Array:
    """ln of 2**exponent * (1 + f), with 1 + f between the square roots of 1/2 and 2."""
    s = f / (f + 2.0)
    z = s * s
    series = z * _polynomial(constants.series, z)
    half_square = f * f * 0.5
    low = s * (half_square + series) + exponent * constants.ln2_low
    return (low - half_square) + f + exponent * constants.ln2_high


def _ratio(function: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    return _polynomial(function[0], x) / _polynomial(function[1], x)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    result = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result
