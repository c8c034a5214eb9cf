"""Special functions against SciPy: to a few units in the last place, and at their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special as reference

from shardwise.backend import special
from shardwise.backend.errors import ArgumentError, DTypeError

INF, NAN = np.inf, np.nan

# Function, SciPy's, where to compare, and the units in the last place that both together may be off.
CASES: list[tuple[Callable[..., Any], Callable[..., Any], np.ndarray, int]] = [
    (special.sigmoid, reference.expit, np.linspace(-700, 40, 20_001), 4),
    (special.erfc, reference.erfc, np.linspace(-6, 5.5, 20_001), 24),
    (special.erfinv, reference.erfinv, np.linspace(-0.9999999, 0.9999999, 20_001), 9),
    (special.erfinv, reference.erfinv, 1.0 - np.logspace(-16, -1, 1001), 9),
    (special.erfinv, reference.erfinv, np.logspace(-300, -1, 1001), 9),
    (special.lgamma, reference.gammaln, np.linspace(0.01, 0.9, 2001), 32),
    (special.lgamma, reference.gammaln, np.linspace(2.2, 60, 20_001), 9),
    (special.lgamma, reference.gammaln, np.logspace(-300, -1, 1001), 4),
    (special.lgamma, reference.gammaln, np.logspace(1, 300, 1001), 4),
    (special.digamma, reference.digamma, np.linspace(0.01, 60, 20_001), 9),
    (special.digamma, reference.digamma, np.logspace(1, 300, 1001), 4),
    *[
        (lambda x, n=n: special.polygamma(n, x), lambda x, n=n: reference.polygamma(n, x),
         np.linspace(0.01, 40, 5001), 24)
        for n in (1, 2, 3, 6)
    ],
    (special.i0, reference.i0, np.linspace(-40, 40, 20_001), 18),
    (special.i0e, reference.i0e, np.linspace(-300, 300, 20_001), 18),
    (special.i1, reference.i1, np.linspace(0.01, 40, 20_001), 18),
    (special.i1e, reference.i1e, np.linspace(0.01, 300, 20_001), 18),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_few_units_in_the_last_place(case: int) -> None:
    function, scipys, x, most = CASES[case]
    expected = scipys(x)
    off = np.abs(function(x) - expected) / np.spacing(np.abs(expected))
    assert off.max() <= most, x[off.argmax()]
    narrow = x[np.abs(x) < 1e37].astype(np.float32)
    single = scipys(narrow.astype(np.float64))
    kept = (np.abs(single) < 1e37) & (np.abs(single) > 1e-37)
    result = function(narrow)
    assert result.dtype == np.float32
    off = np.abs(result[kept].astype(np.float64) - single[kept])
    assert np.max(off / np.spacing(np.abs(single[kept]).astype(np.float32))) <= 1


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (special.sigmoid, [NAN, INF, -INF, 1e300, -1e300, 0.0], [NAN, 1.0, 0.0, 1.0, 0.0, 0.5]),
        (special.erfc, [NAN, INF, -INF, 30.0, -30.0, 0.0], [NAN, 0.0, 2.0, 0.0, 2.0, 1.0]),
        (special.erfinv, [NAN, 1.0, -1.0, 1.5, -INF, 0.0], [NAN, INF, -INF, NAN, NAN, 0.0]),
        (
            special.lgamma,
            [NAN, INF, -INF, 0.0, -0.0, -3.0, 1.0, 2.0],
            [NAN, INF, INF, INF, INF, INF, 0.0, 0.0],
        ),
        (special.digamma, [NAN, INF, -INF, 0.0, -0.0, -3.0], [NAN, INF, NAN, -INF, INF, NAN]),
        (special.i0, [NAN, INF, -INF, 800.0, 0.0], [NAN, INF, INF, INF, 1.0]),
        (special.i1, [NAN, INF, -INF, -800.0, 0.0], [NAN, INF, -INF, -INF, 0.0]),
        (special.i0e, [NAN, INF, -INF, 0.0], [NAN, 0.0, 0.0, 1.0]),
        (special.i1e, [NAN, INF, -INF, 0.0], [NAN, 0.0, 0.0, 0.0]),
        (lambda x: special.polygamma(1, x), [NAN, INF, 0.0, -2.0], [NAN, 0.0, INF, INF]),
        (lambda x: special.polygamma(2, x), [NAN, INF, 0.0, -2.0], [NAN, 0.0, -INF, -INF]),
    ],
)
def test_ends_and_poles(function: Any, x: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(function(np.array(x)), expected, rtol=3e-16)


def test_below_zero() -> None:
    x = -np.linspace(0.01, 12, 1501)
    x = x[np.abs(x - np.round(x)) > 1e-3]
    np.testing.assert_allclose(special.lgamma(x), reference.gammaln(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(special.digamma(x), reference.digamma(x), rtol=1e-11, atol=1e-12)
    for n in (1, 2, 3, 4):
        size = np.abs(reference.polygamma(n, x)).max()
        np.testing.assert_allclose(
            special.polygamma(n, x), reference.polygamma(n, x), rtol=1e-10, atol=1e-16 * size
        )


def test_zeros_of_lgamma_and_digamma() -> None:
    step = np.array([1e-3, 1e-6, 1e-9, -1e-3, -1e-6, -1e-9])
    zetas = [(n, (-1) ** n * reference.zetac(n) / n) for n in range(2, 9)]  # zetac: zeta less 1
    for point, first in ((1.0, -np.euler_gamma), (2.0, 1.0 - np.euler_gamma)):
        h = (point + step) - point
        series = first * h + sum((c + (-1) ** n / n * (point == 1.0)) * h**n for n, c in zetas)
        np.testing.assert_allclose(special.lgamma(point + step), series, rtol=1e-14)
    root = 1.4616321449683622
    np.testing.assert_allclose(special.digamma(root + step), reference.digamma(root + step), rtol=1e-13)


def test_dtypes_and_arguments() -> None:
    for function in special.POINTWISE:
        call = (lambda x: special.polygamma(2, x)) if function is special.polygamma else function
        for dtype in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
            assert call(np.full((2, 0), 0.5, dtype)).dtype == dtype
            assert call(np.array(0.5, dtype)).shape == ()
        assert call(np.ones(2, np.int32)).dtype == np.float64
        with pytest.raises(DTypeError, match=f"^{function.__name__} takes real numbers, and got an array of"):
            call(np.ones(2, np.complex128))
    with pytest.raises(ArgumentError, match=r"^polygamma: the order must be at least 0, got -2\.$"):
        special.polygamma(-2, np.ones(1))
