"""Gathering and scattering element by element, against a loop."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.kernels.place.gather import gather_along, scatter_along
from tolerance import assert_close


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index_dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize(
    ("outer", "n", "size", "inner"), [(1, 9, 4, 1), (3, 7, 4, 2), (2, 0, 4, 3), (0, 3, 2, 2), (2, 5, 1, 4)]
)
def test_as_a_loop(
    outer: int, n: int, size: int, inner: int, index_dtype: type[np.integer], dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, size, (outer, n, inner)).astype(index_dtype)
    if index_dtype is not np.uint8:
        index[::2] -= size  # counted from the end
    x, g = (rng.standard_normal((outer, k, inner)).astype(dtype) for k in (size, n))
    taken, total = np.zeros((outer, n, inner)), np.zeros((outer, size, inner))
    for o, i, j in np.ndindex(index.shape):
        taken[o, i, j] = x[o, index[o, i, j], j]
        total[o, index[o, i, j], j] += g[o, i, j]
    for version in ("plain", "fused"):
        np.testing.assert_array_equal(getattr(gather_along, version)(x, index, True), taken)
        assert_close(getattr(scatter_along, version)(g, index, size), total, n)


def test_strided_input() -> None:
    rng = np.random.default_rng(6)
    index, x = rng.integers(0, 4, (8, 6, 4)), rng.standard_normal((8, 4, 6)).astype(np.float32)
    strided, places = x[::2, :, ::3], index[::2, :, ::2]
    np.testing.assert_array_equal(gather_along(strided, places), gather_along(strided.copy(), places.copy()))
    g = x.transpose(0, 2, 1)
    np.testing.assert_array_equal(scatter_along(g, index, 4), scatter_along(g.copy(), index, 4))


@pytest.mark.parametrize("wrong", [-3, 2, 10**12])
@pytest.mark.parametrize("version", ["plain", "fused"])
def test_an_index_out_of_range(wrong: int, version: str) -> None:
    x, index = np.ones((1, 2, 1)), np.array([[[0], [wrong]]])
    with pytest.raises(IndexError, match="out of"):
        getattr(gather_along, version)(x, index)
    with pytest.raises(IndexError, match="out of"):
        getattr(gather_along, version)(x, np.array([[[-1], [0]]]))
    with pytest.raises(IndexError, match="out of"):
        getattr(gather_along, version)(x, index, True)
    with pytest.raises(IndexError, match="out of"):
        getattr(scatter_along, version)(x, index, 2)
