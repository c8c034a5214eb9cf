"""A row added to many rows, against NumPy's addition: the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.pointwise.bias import add_row


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "row"), [((3, 4), (4,)), ((2, 3, 5), (3, 5)), ((2, 3, 5), (5,)), ((0, 4), (4,)), ((3, 0), (0,))]
)
def test_add_row(shape: tuple[int, ...], row: tuple[int, ...], dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(12)
    x, b = rng.standard_normal(shape).astype(dtype), rng.standard_normal(row).astype(dtype)
    for version in (add_row.fused, add_row.plain):
        for a in (x, x[::-1], np.asfortranarray(x)):
            result = version(a, b)
            np.testing.assert_array_equal(result, a + b)
            assert result.dtype == dtype


def test_what_is_not_finite() -> None:
    x = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)
    b = np.array([1.0, -np.inf, 1.0, 0.0], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(add_row.fused(x, b), x + b)
