"""Sums of squares and of columns, against exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardwise.backend.kernels.reduction.reduction import column_sum, sum_of_squares
from tolerance import assert_close


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (40, 31), (3, 4, 5)])
@pytest.mark.parametrize("plain", [True, False])
def test_sum_of_squares(plain: bool, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    x = (10 * np.random.default_rng(17).standard_normal(shape)).astype(dtype)
    total = (sum_of_squares.plain if plain else sum_of_squares.fused)(x)
    assert isinstance(total, np.ndarray)
    assert total.shape == ()
    assert total.dtype == np.float64
    exact = math.fsum(float(value) ** 2 for value in x.reshape(-1))
    assert float(total) == pytest.approx(exact, rel=1e-13)


def test_squares_that_float32_could_not_hold() -> None:
    x = np.array([1e30, 1e-30, 3e38], np.float32)
    assert float(sum_of_squares(x)) == pytest.approx(math.fsum(float(v) ** 2 for v in x), rel=1e-14)


def test_sum_of_squares_of_complex_and_narrow_arrays() -> None:
    assert float(sum_of_squares(np.array([3 + 4j, 1j], np.complex64))) == 26.0
    narrow = sum_of_squares(np.array([300.0, 300.0], np.float16))
    assert narrow.dtype == np.float64
    assert float(narrow) == 180_000.0


def test_a_nan_is_seen() -> None:
    assert np.isnan(sum_of_squares(np.array([1.0, np.nan], np.float32)))
    assert sum_of_squares(np.array([1.0, np.inf], np.float32)) == np.inf
    np.testing.assert_array_equal(
        np.isnan(column_sum(np.array([[1.0, np.nan], [1, 1]], np.float32))), [False, True]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 5), (300, 7), (4, 5, 6), (0, 3), (5,), (2, 0)])
def test_column_sum(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    g = np.random.default_rng(18).standard_normal(shape).astype(dtype)
    expected = g.astype(np.float64).reshape(math.prod(shape[:-1]), shape[-1]).sum(0)
    for version in (column_sum.fused, column_sum.plain):
        total = version(g)
        assert total.dtype == dtype
        assert_close(total, expected, math.prod(shape[:-1]))


def test_errors_of_a_column_sum_do_not_grow_with_its_length() -> None:
    g = np.full((500_000, 2), 0.1, np.float32)
    np.testing.assert_allclose(column_sum(g), 500_000 * np.float64(np.float32(0.1)), rtol=3e-5)


def test_strided_input() -> None:
    g = np.random.default_rng(19).standard_normal((9, 8, 6)).astype(np.float32)
    np.testing.assert_array_equal(column_sum(g[::2, :, ::3]), column_sum(g[::2, :, ::3].copy()))
    np.testing.assert_array_equal(sum_of_squares(g.T), sum_of_squares(np.ascontiguousarray(g.T)))
