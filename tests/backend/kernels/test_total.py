"""Sums and extremes over dims, against exact sums, and on what is not finite."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.reduction.total import (
    LARGE,
    largest_over,
    product_over,
    smallest_over,
    sum_of_numbers_over,
    sum_of_sizes_over,
    sum_of_squares_over,
    sum_over,
)
from tolerance import assert_close

DTYPES = [np.float32, np.float64]
SUMS = [sum_over, sum_of_squares_over, sum_of_sizes_over, sum_of_numbers_over]
EXTREMES = [largest_over, smallest_over]
# Rows shorter and longer than a block, short rows that are put together, more columns than a tile has.
SHAPES = [(), (7,), (5000,), (2, 3000), (3000, 2), (600, 3), (3, 4, 5), (40, 2, 7), (1, 1, 1), (300, 2100)]


def every_choice(ndim: int) -> list[tuple[int, ...]]:
    return [dims for n in range(ndim + 1) for dims in itertools.combinations(range(ndim), n)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", [*SUMS, *EXTREMES], ids=lambda kernel: kernel.name)
def test_every_choice_of_dims(kernel: Kernel, shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    x = np.asarray(np.random.default_rng(3).standard_normal(shape), dtype)
    for dims in every_choice(len(shape)):
        exact = kernel.plain(x.astype(np.longdouble), dims)
        length = math.prod(shape[d] for d in dims)
        result = kernel.fused(x, dims)
        assert result.dtype == dtype
        assert_close(result, np.asarray(exact), length, scale=length**0.5)
        mirrored = tuple(sorted(x.ndim - 1 - d for d in dims))
        assert_close(kernel.fused(x.T, mirrored), np.asarray(exact).T, length, scale=length**0.5)


@pytest.mark.parametrize("kernel", [*SUMS, *EXTREMES], ids=lambda kernel: kernel.name)
def test_layouts(kernel: Kernel) -> None:
    x = np.random.default_rng(4).standard_normal((6, 8, 10)).astype(np.float32)
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape)
    views = [
        x[::2],
        x[..., ::-1],
        x.transpose(1, 2, 0),
        x[:, :1],
        np.broadcast_to(x[:, :1], x.shape),
        misaligned,
    ]
    for view in views:
        for dims in every_choice(3):
            np.testing.assert_allclose(
                kernel.fused(view, dims), kernel.plain(view, dims), rtol=2e-5, atol=1e-5
            )


@pytest.mark.parametrize("kernel", SUMS, ids=lambda kernel: kernel.name)
def test_sums_of_nothing(kernel: Kernel) -> None:
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 4)):
        for dims in every_choice(len(shape)):
            result = kernel.fused(np.empty(shape, np.float32), dims)
            assert result.shape == tuple(n for d, n in enumerate(shape) if d not in dims)
            assert not result.any()


def test_errors_stay_below_those_of_pairwise_sums() -> None:
    x = np.random.default_rng(5).random((1 << 20, 2)).astype(np.float32)
    for array, dims in ((x, (0, 1)), (x, (0,)), (np.ascontiguousarray(x.T), (1,))):
        exact = np.sum(array, axis=dims, dtype=np.float64)
        error = np.max(np.abs(sum_over.fused(array, dims) - exact) / exact)
        assert error <= 6.5e-8  # half a unit in the last place, and next to nothing: a rounded exact sum's
    wide = x.astype(np.float64)
    exact = math.fsum(wide.reshape(-1))
    assert abs(float(sum_over.fused(wide, (0, 1))) - exact) <= abs(float(np.sum(wide)) - exact) + 1e-9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("where", [0, 700, 1023, 1024, 2999])
def test_what_is_not_finite(where: int, dtype: type[np.floating]) -> None:
    for shape, dims in (((3000,), (0,)), ((2, 3000), (1,)), ((3000, 2), (0,))):
        x = np.ones(shape, dtype)
        place = (where,) if len(shape) == 1 else (0, where) if dims == (1,) else (where, 0)
        for value in (np.nan, -np.nan, np.inf, -np.inf):
            x[place] = value
            first = (0,) * (len(shape) - 1)
            assert np.array_equal(sum_over.fused(x, dims)[first], value, equal_nan=True)
            assert np.array_equal(sum_of_squares_over.fused(x, dims)[first], value * value, equal_nan=True)
            larger = value if np.isnan(value) else max(value, 1.0)
            assert np.array_equal(largest_over.fused(x, dims)[first], larger, equal_nan=True)
            smaller = value if np.isnan(value) else min(value, 1.0)
            assert np.array_equal(smallest_over.fused(x, dims)[first], smaller, equal_nan=True)
            numbers = 2999.0 if np.isnan(value) else value
            assert sum_of_numbers_over.fused(x, dims)[first] == numbers


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_of_zeros_denormals_and_infinities(dtype: type[np.floating]) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    for row in (
        [0.0, -0.0],
        [-tiny, -2 * tiny],
        [tiny, 0.0],
        [-np.inf, -np.inf],
        [np.inf, -1.0],
        [-1.0, -3.0],
    ):
        x = np.array([row], dtype)
        assert largest_over.fused(x, (1,))[0] == max(row)
        assert smallest_over.fused(x, (1,))[0] == min(row)


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_extremes_are_numpys(values: list[float]) -> None:
    x = np.array([values], np.float32)
    np.testing.assert_array_equal(largest_over.fused(x, (1,)), np.max(x, axis=1))
    np.testing.assert_array_equal(smallest_over.fused(x, (0, 1)), np.min(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3000,), (2, 3000), (30, 4), (2, 3, 4), (0, 3)], ids=str)
def test_products(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    x = np.random.default_rng(7).uniform(0.99, 1.01, shape).astype(dtype)
    for dims in every_choice(len(shape)):
        exact = np.asarray(np.prod(x.astype(np.longdouble), axis=dims))
        assert_close(product_over.fused(x, dims), exact, max(1, math.prod(shape[d] for d in dims)))
        assert product_over.fused(x, dims).dtype == dtype


def test_factors_that_float32_could_not_hold_in_lanes() -> None:
    x = np.tile([2.0**7, 2.0**-7], 2000).astype(np.float32)
    assert product_over.fused(x, (0,)) == 1.0
    assert np.isnan(product_over.fused(np.append(x, np.nan).astype(np.float32), (0,)))


def test_small_arrays_take_the_formula() -> None:
    small = np.random.default_rng(6).standard_normal(LARGE - 1).astype(np.float32)
    assert sum_over(small, (0,)) == np.sum(small)
    assert isinstance(sum_over(small, (0,)), np.ndarray)
    large = np.random.default_rng(6).standard_normal(LARGE).astype(np.float32)
    np.testing.assert_array_equal(sum_over(large, (0,)), sum_over.fused(large, (0,)))


@pytest.mark.parametrize(("real", "bits"), [(np.float32, np.uint32), (np.float64, np.uint64)])
def test_extremes_of_any_bits(real: type[np.floating], bits: type[np.unsignedinteger]) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, np.iinfo(bits).max, (600, 7), dtype=bits).view(real)
    signed = [np.abs(rows), -np.abs(rows), rows, np.full((1, 7), -np.inf, real), -np.zeros((1, 7), real)]
    for x in signed:
        np.testing.assert_array_equal(largest_over.fused(x, (1,)), np.max(x, axis=1))
        np.testing.assert_array_equal(smallest_over.fused(x, (1,)), np.min(x, axis=1))
