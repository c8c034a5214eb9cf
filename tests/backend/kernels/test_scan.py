"""Running sums, against exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.scan import running_sum
from tolerance import assert_close


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((9,), 0),
        ((7, 5), 1),
        ((7, 5), 0),
        ((3, 4, 5), 1),
        ((2, 3, 1), 1),
        ((0, 3), 1),
        ((3, 0), 1),
        ((4, 2, 3), 0),
    ],
)
def test_running_sum(shape: tuple[int, ...], dim: int, dtype: type[np.floating]) -> None:
    x = np.random.default_rng(23).standard_normal(shape).astype(dtype)
    expected = np.cumsum(x.astype(np.float64), axis=dim)
    for version in (running_sum.fused, running_sum.plain):
        result = version(x, dim)
        assert result.dtype == dtype
        assert_close(result, expected)
        assert_close(version(x[::-1], dim), np.cumsum(x[::-1].astype(np.float64), axis=dim))


def test_errors_of_a_running_sum_do_not_grow_with_its_length() -> None:
    x = np.full((1, 1 << 20), 0.1, np.float32)
    expected = np.arange(1, (1 << 20) + 1) * np.float64(np.float32(0.1))
    for array, dim in ((x, 1), (x.reshape(-1, 1), 0), (np.repeat(x.reshape(-1, 1), 2, 1), 0)):
        result = running_sum(array, dim)
        np.testing.assert_allclose(result.reshape(-1, result.size >> 20)[:, 0], expected, rtol=1e-7)


def test_what_is_not_finite_stays_so() -> None:
    with np.errstate(invalid="ignore"):
        for version in (running_sum.fused, running_sum.plain):
            result = version(np.array([[1.0, np.inf, -np.inf, 2.0], [np.nan, 1.0, 2.0, 3.0]], np.float32), 1)
            np.testing.assert_array_equal(result[0], [1.0, np.inf, np.nan, np.nan])
            assert np.isnan(result[1]).all()
