"""The top of rows, against whole stable sorts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend import special
from shardwise.backend.kernels.reduction.top import top_of_rows


def expected(rows: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """By a sort of (rank, index), where NaN ranks above infinity."""
    lists = []
    for row in rows:
        sign = -1.0 if largest else 1.0
        keys = [(sign * (2.0 if np.isnan(v) else 0.0), 0.0 if np.isnan(v) else sign * v) for v in row]
        lists.append(sorted(range(len(row)), key=lambda i, keys=keys: keys[i])[:k])
    return np.array(lists, np.int64).reshape(len(rows), k)


ELEMENTS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, -np.nan, 1e-45, 3e38])


@given(
    row=st.lists(ELEMENTS, min_size=1, max_size=60),
    share=st.floats(0, 1),
    largest=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=60, deadline=None)
def test_few_of_rows_with_ties(
    row: list[float], share: float, largest: bool, dtype: type[np.floating]
) -> None:
    rows, k = np.array([row, row[::-1]], dtype), int(share * len(row))
    for version in (top_of_rows.fused, top_of_rows.plain):
        result = version(rows, k, largest)
        np.testing.assert_array_equal(result, expected(rows, k, largest))
        assert result.dtype == np.int64


@pytest.mark.parametrize("k", [1, 7, 100, 400])
@pytest.mark.parametrize("largest", [True, False])
def test_long_rows(k: int, largest: bool) -> None:
    rows = np.random.default_rng(13).integers(-300, 300, (3, 1000)).astype(np.float32)
    for array in (rows, rows[:, ::-1], np.asfortranarray(rows)):
        np.testing.assert_array_equal(top_of_rows.fused(array, k, largest), expected(array, k, largest))


def test_along_other_dims_and_of_nothing() -> None:
    x = np.random.default_rng(14).standard_normal((200, 3, 40)).astype(np.float32)
    for dim in range(3):
        order = np.argsort(-x, axis=dim, kind="stable")
        np.testing.assert_array_equal(special.top_indices(x, 3, dim, True), np.take(order, range(3), dim))
    assert special.top_indices(np.ones((2, 0)), 0, 1, True).shape == (2, 0)
    assert special.top_indices(np.ones((0, 4)), 2, 1, True).shape == (0, 2)
    assert special.top_indices(np.arange(9), 2, 0, True).tolist() == [8, 7]
