"""Running sums, products and extremes, against exact ones."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.reduction.scan import (
    product_backward,
    running_largest,
    running_product,
    running_product_backward,
    running_smallest,
    running_sum,
)
from tolerance import assert_close

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = pytest.mark.parametrize(
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


@DTYPES
@SHAPES
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


@DTYPES
@SHAPES
def test_running_product(shape: tuple[int, ...], dim: int, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(24)
    x, g = (rng.uniform(0.5, 1.5, shape).astype(dtype) for _ in range(2))
    x[..., 1:2] = 0
    expected = np.cumprod(x.astype(np.float64), axis=dim)
    for version in (running_product.fused, running_product.plain):
        for array, exact in ((x, expected), (x.T.copy().T, expected)):
            result = version(array, dim)
            assert result.dtype == dtype
            assert_close(result, exact)
    if x.size:
        slope = running_product_backward.plain(g.astype(np.float64), x.astype(np.float64), dim)
        assert_close(running_product_backward.fused(g, x, dim), slope, shape[dim])


def test_gradients_of_running_products_against_each_partial_derivative() -> None:
    x = np.array([[1.5, 0.0, -2.0, 3.0], [0.0, 0.0, 1.0, 2.0]])
    g = np.array([[1.0, 2.0, 3.0, 4.0]] * 2)
    expected = np.zeros_like(x)
    for i in range(4):
        for j in range(i, 4):
            others = [k for k in range(j + 1) if k != i]
            expected[:, i] += g[:, j] * np.prod(x[:, others], axis=1)
    for version in (running_product_backward.fused, running_product_backward.plain):
        np.testing.assert_allclose(version(g, x, 1), expected)
        np.testing.assert_allclose(version(g.T, x.T, 0), expected.T)


@DTYPES
@pytest.mark.parametrize("shape", [(3, 7), (2, 1), (1, 300)])
def test_gradient_of_a_product(shape: tuple[int, int], dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(25)
    x, g = rng.uniform(0.8, 1.2, shape).astype(dtype), rng.standard_normal(shape[0]).astype(dtype)
    x[0, -1] = 0
    expected = np.empty(shape)
    for j in range(shape[1]):
        expected[:, j] = g * np.prod(np.delete(x.astype(np.float64), j, axis=1), axis=1)
    for version in (product_backward.fused, product_backward.plain):
        assert_close(version(g, x), expected, shape[1])
    assert product_backward.fused(g, x).dtype == dtype


def test_products_may_leave_the_range_of_float32_and_come_back() -> None:
    x = np.array([[1e30, 1e30, 1e-30]], np.float32)
    for version in (running_product.fused, running_product.plain):
        np.testing.assert_allclose(version(x, 1), [[1e30, np.inf, 1e30]], rtol=1e-6)


EXTREMES = pytest.mark.parametrize("kernel", [running_largest, running_smallest], ids=lambda k: k.name)


@DTYPES
@SHAPES
@EXTREMES
def test_running_extremes(kernel: Kernel, shape: tuple[int, ...], dim: int, dtype: type[np.floating]) -> None:
    x = np.random.default_rng(26).integers(-3, 4, shape).astype(dtype)  # with ties
    x[x == 3] = np.nan
    values, indices = kernel.fused(x, dim)
    expected, places = kernel.plain(x, dim)
    assert (values.dtype, indices.dtype) == (dtype, np.int64)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(np.take_along_axis(x, indices, dim), values)


@EXTREMES
def test_the_last_of_equals_is_named_and_nan_stays(kernel: Kernel) -> None:
    x = np.array([[0.0, -0.0, 0.0, np.nan, 5.0, np.nan, -5.0], [np.inf, np.inf, -np.inf, -np.inf, 0, 0, 0]])
    places = {"running_largest": [0, 1, 1, 1, 1, 1, 1], "running_smallest": [0, 1, 2, 3, 3, 3, 3]}
    for version in (kernel.fused, kernel.plain):
        values, indices = version(x, 1)
        np.testing.assert_array_equal(indices[0], [0, 1, 2, 3, 3, 5, 5])
        np.testing.assert_array_equal(values[0], [0, 0, 0, np.nan, np.nan, np.nan, np.nan])
        np.testing.assert_array_equal(indices[1], places[kernel.name])


def test_gradients_of_another_shape() -> None:
    with pytest.raises(ShapeError) as caught:
        running_product_backward.fused(np.ones(3), np.ones(4), 0)
    assert str(caught.value) == (
        "running_product_backward: the gradient has shape (3,), and the input (4,); wanted the same."
    )


@EXTREMES
@DTYPES
def test_running_extremes_of_special_values(kernel: Kernel, dtype: type[np.floating]) -> None:
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, 5e-324, -1e-40]
    x = np.random.default_rng(1).choice(np.array(values, dtype), (50, 9))
    found, places = kernel.fused(x, 1)
    for row, best, where in zip(x, found, places, strict=True):
        place = 0
        for j, value in enumerate(row):
            beaten = value >= row[place] if kernel is running_largest else value <= row[place]
            if np.isnan(value) or (beaten and not np.isnan(row[place])):
                place = j
            assert where[j] == place
            assert best[j].tobytes() == row[place].tobytes()
