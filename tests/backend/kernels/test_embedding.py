"""The gradient of an embedding, against a loop."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.place.embedding import embedding_backward
from tolerance import assert_close


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index_dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (60,), (5, 12), (0,), (2, 3, 4)])
def test_rows_add_up(shape: tuple[int, ...], index_dtype: type[np.integer], dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(14)
    index = np.asarray(rng.integers(0, 7, shape)).astype(index_dtype)
    g = rng.standard_normal((*shape, 5)).astype(dtype)
    expected = np.zeros((9, 5))
    for place in np.ndindex(shape):
        expected[index[place]] += g[place]
    for version in (embedding_backward.fused, embedding_backward.plain):
        dweight = version(g, index, 9)
        assert dweight.dtype == dtype
        assert_close(dweight, expected, 60)
        assert not dweight[7:].any()


def test_strided_input() -> None:
    rng = np.random.default_rng(15)
    index, g = rng.integers(0, 4, (6, 8)), rng.standard_normal((8, 6, 10)).astype(np.float32)
    strided = embedding_backward(g[..., ::2], index.T, 4)
    np.testing.assert_array_equal(strided, embedding_backward(g[..., ::2].copy(), index.T.copy(), 4))


def test_a_nan_stays_in_its_row() -> None:
    g = np.ones((3, 2), np.float32)
    g[1, 0] = np.nan
    dweight = embedding_backward(g, np.array([0, 1, 0]), 3)
    np.testing.assert_array_equal(np.isnan(dweight), [[False, False], [True, False], [False, False]])


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("wrong", [-1, 5, 10**10])
def test_an_index_out_of_range(wrong: int, plain: bool) -> None:
    kernel = embedding_backward.plain if plain else embedding_backward.fused
    with pytest.raises(IndexRangeError) as caught:
        kernel(np.ones((2, 2, 3), np.float32), np.array([[0, 4], [1, wrong]]), 5)
    assert str(caught.value) == (
        f"embedding_backward: index[1, 1] is {wrong}, and the table has 5 rows: wanted 0 to 4. Check the "
        "vocabulary size against the token ids."
    )


@pytest.mark.parametrize("plain", [True, False])
def test_shapes_that_do_not_fit(plain: bool) -> None:
    kernel = embedding_backward.plain if plain else embedding_backward.fused
    with pytest.raises(ShapeError, match=r"the index has shape \(4,\), so the gradient should have"):
        kernel(np.ones((3, 2), np.float32), np.zeros(4, np.int64), 5)


@pytest.mark.parametrize("plain", [True, False])
def test_indices_that_are_no_integers(plain: bool) -> None:
    kernel = embedding_backward.plain if plain else embedding_backward
    with pytest.raises(DTypeError, match=r"^embedding_backward: wanted integers as indices, got float32\."):
        kernel(np.ones((3, 2), np.float32), np.zeros(3, np.float32), 5)
