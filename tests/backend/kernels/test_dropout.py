"""Dropout: the mask is the stream's Bernoulli bits, fused or not."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.random import bernoulli
from tolerance import tolerance

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 1, 6, 513, 2**33 + 3])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (40, 33)])
def test_forward(shape: tuple[int, ...], offset: int, dtype: type[np.floating]) -> None:
    x = np.random.default_rng(11).standard_normal(shape).astype(dtype)
    y, mask = dropout_forward.fused(x, 0.3, 7, 5, offset)
    plain_y, plain_mask = dropout_forward.plain(x, 0.3, 7, 5, offset)
    np.testing.assert_array_equal(mask, ~bernoulli(shape, 0.3, 7, 5, offset))
    np.testing.assert_array_equal(mask, plain_mask)
    np.testing.assert_allclose(y, np.where(mask, x / 0.7, 0.0), rtol=tolerance(dtype))
    np.testing.assert_array_equal(y, plain_y)
    assert y.dtype == plain_y.dtype == dtype
    assert mask.dtype == np.bool_


@pytest.mark.parametrize("dtype", DTYPES)
def test_backward(dtype: type[np.floating]) -> None:
    x, g = np.random.default_rng(12).standard_normal((2, 30, 7)).astype(dtype)
    _, mask = dropout_forward(x, 0.25, 1, 2, 0)
    dx = dropout_backward.fused(g, mask, 0.25)
    np.testing.assert_allclose(dx, np.where(mask, g / 0.75, 0.0), rtol=tolerance(dtype))
    np.testing.assert_array_equal(dx, dropout_backward.plain(g, mask, 0.25))
    np.testing.assert_array_equal(dx, dropout_backward.fused(g, mask.astype(np.uint8), 0.25))
    assert dx.dtype == dtype


def test_rows_of_a_batch_are_dropped_alike_however_it_is_split() -> None:
    x = np.ones((12, 37), np.float32)
    whole, _ = dropout_forward(x, 0.5, 3, 4, 0)
    for ranks in (1, 2, 3, 4):
        parts = [
            dropout_forward(part, 0.5, 3, 4, 37 * (12 // ranks) * rank)[0]
            for rank, part in enumerate(np.split(x, ranks))
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_the_mean_stays() -> None:
    y, mask = dropout_forward(np.ones(200_000, np.float32), 0.1, 0, 0, 0)
    assert abs(mask.mean() - 0.9) < 4 * np.sqrt(0.09 / 200_000)
    assert abs(y.mean() - 1.0) < 0.005


@pytest.mark.parametrize("plain", [True, False])
def test_probabilities_zero_and_one(plain: bool) -> None:
    forward = dropout_forward.plain if plain else dropout_forward.fused
    backward = dropout_backward.plain if plain else dropout_backward.fused
    x = np.arange(1.0, 50.0, dtype=np.float32)
    y, mask = forward(x, 0.0, 1, 1, 0)
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    y, mask = forward(x, 1.0, 1, 1, 0)
    np.testing.assert_array_equal(y, 0.0)
    assert not mask.any()
    np.testing.assert_array_equal(backward(x, mask, 1.0), 0.0)


def test_what_is_dropped_is_zero_even_if_it_was_nan() -> None:
    y, mask = dropout_forward(np.full(1000, np.nan, np.float32), 0.5, 1, 1, 0)
    np.testing.assert_array_equal(np.isnan(y), mask)
    np.testing.assert_array_equal(y[~mask], 0.0)


def test_strided_input_counts_elements_in_order() -> None:
    x = np.random.default_rng(13).standard_normal((6, 8)).astype(np.float32)
    np.testing.assert_array_equal(
        dropout_forward(x.T, 0.5, 1, 2, 3)[0], dropout_forward(x.T.copy(), 0.5, 1, 2, 3)[0]
    )


@pytest.mark.parametrize("plain", [True, False])
def test_bad_arguments(plain: bool) -> None:
    forward = dropout_forward.plain if plain else dropout_forward.fused
    x = np.ones(3, np.float32)
    with pytest.raises(ArgumentError) as caught:
        forward(x, 1.5, 0, 0, 0)
    assert str(caught.value) == "dropout: wanted a probability p from 0 to 1, got 1.5."
    with pytest.raises(ArgumentError, match=r"wanted an offset of 0 or more, got -1\."):
        forward(x, 0.5, 0, 0, -1)
    with pytest.raises(ShapeError, match=r"the gradient has shape \(3,\), and the mask \(4,\)"):
        dropout_backward.fused(x, np.ones(4, bool), 0.5)
