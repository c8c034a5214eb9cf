"""Random arrays: definitions, windows of a global array, fused equal to plain, distributions, errors."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.philox import random_words
from shardwise.backend.quantile import normal_from_words
from shardwise.backend.random import bernoulli, integers, normal, permutation, uniform
from shardwise.backend.shape import ShapeArray

KINDS: dict[str, Callable[..., np.ndarray]] = {
    "uniform float32": lambda shape, **where: uniform(shape, np.float32, **where),
    "uniform float64": lambda shape, **where: uniform(shape, "float64", **where),
    "uniform float16": lambda shape, **where: uniform(shape, np.float16, **where),
    "uniform bfloat16": lambda shape, **where: uniform(shape, ml_dtypes.bfloat16, **where),
    "normal float32": lambda shape, **where: normal(shape, np.float32, **where),
    "normal float64": lambda shape, **where: normal(shape, np.float64, **where),
    "normal float16": lambda shape, **where: normal(shape, np.float16, **where),
    "bernoulli": lambda shape, **where: bernoulli(shape, 0.3, **where),
    "integers": lambda shape, **where: integers(-3, 1000, shape, **where),
}
kind = pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS.keys())
WHERE = {"seed": 2**63 + 11, "stream": 5}
MANY = 200_000


@kind
@given(
    total=st.integers(0, 1300), start=st.integers(0, 1300), stop=st.integers(0, 1300), base=st.integers(0, 9)
)
def test_a_window_is_a_slice_of_the_whole(
    draw: Callable[..., np.ndarray], total: int, start: int, stop: int, base: int
) -> None:
    start, stop = sorted((min(start, total), min(stop, total)))
    whole = draw((total,), offset=base, **WHERE)
    np.testing.assert_array_equal(draw((stop - start,), offset=base + start, **WHERE), whole[start:stop])


@kind
def test_shards_of_rows(draw: Callable[..., np.ndarray]) -> None:
    whole = draw((7, 5, 3), **WHERE)
    for rows in (1, 2, 3):
        parts = [draw((len(whole[i : i + rows]), 5, 3), offset=15 * i, **WHERE) for i in range(0, 7, rows)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@kind
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 2**40 + 1])
@pytest.mark.parametrize("count", [0, 1, 511, 513, 5000])
def test_fused_bits_are_those_of_the_formula(
    draw: Callable[..., np.ndarray], count: int, offset: int
) -> None:
    ours = draw((count,), offset=offset, **WHERE)
    with plain_formulas():
        reference = draw((count,), offset=offset, **WHERE)
    assert ours.dtype == reference.dtype
    assert ours.tobytes() == reference.tobytes()


@kind
def test_seed_and_stream_matter(draw: Callable[..., np.ndarray]) -> None:
    draws = [draw((64,), seed=seed, stream=stream) for seed in (0, 1, 2**40) for stream in (0, 1, 2**40)]
    assert len({array.tobytes() for array in draws}) == 9


@kind
def test_the_result_is_of_the_kind_of_like(draw: Callable[..., np.ndarray]) -> None:
    expected = draw((4, 5), **WHERE)
    shape = draw((4, 5), like=ShapeArray((9,), np.int8), **WHERE)
    assert isinstance(shape, ShapeArray)
    assert (shape.shape, shape.dtype) == (expected.shape, expected.dtype)
    for dtype in (np.int8, np.float16, np.float32):
        np.testing.assert_array_equal(draw((4, 5), like=np.ones(2, dtype), **WHERE), expected)


def test_uniform_is_defined_by_the_words() -> None:
    words = random_words(None, 4000, 3, 4, 0).astype(np.uint64)
    np.testing.assert_array_equal(
        uniform((4000,), np.float32, 3, 4), (words >> 8).astype(np.float64) * 2.0**-24
    )
    double = (words[0::2] << 32 | words[1::2]) >> 11
    np.testing.assert_array_equal(uniform((2000,), np.float64, 3, 4), double.astype(np.float64) * 2.0**-53)
    half = uniform((4000,), np.float16, 3, 4)
    np.testing.assert_array_equal(half.astype(np.float64), (words >> 21).astype(np.float64) * 2.0**-11)
    brain = uniform((4000,), ml_dtypes.bfloat16, 3, 4)
    np.testing.assert_array_equal(brain.astype(np.float64), (words >> 24).astype(np.float64) * 2.0**-8)


def test_normal_is_the_quantile_of_the_words() -> None:
    words = random_words(None, 400_000, 3, 4, 0).astype(np.uint64)
    single = normal((400_000,), np.float32, 3, 4)
    assert np.abs(single - special.ndtri((words.astype(np.float64) + 0.5) * 2.0**-32)).max() < 2e-6
    top = (words[0::2] << 32 | words[1::2]) >> 11
    upper = top >= 2**52
    nearer = np.where(upper, 2**53 - 1 - top, top).astype(np.float64)
    quantile = special.ndtri((2 * nearer + 1) * 2.0**-54) * np.where(upper, -1, 1)
    assert np.abs(normal((200_000,), np.float64, 3, 4) - quantile).max() < 4e-15


def test_bernoulli_is_the_comparison_with_p() -> None:
    words = random_words(None, 5000, 3, 4, 0)
    for p in (0.0, 2.0**-32, 0.1, 0.5, 1 - 2.0**-32, 1.0, float(words[7]) * 2.0**-32):
        expected = [int(word) < p * 2**32 for word in words]
        assert bernoulli((5000,), p, 3, 4).tolist() == expected


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 10), (-7, -3), (5, 6), (0, 2**32), (0, 2**32 + 1), (-(2**63), 2**63), (-1, 2**62 + 3)],
)
def test_integers_are_the_high_half_of_a_product(low: int, high: int) -> None:
    words = [int(word) for word in random_words(None, 2000, 3, 4, 0)]
    expected = [
        low + (((a << 32 | b) * (high - low)) >> 64) for a, b in zip(words[::2], words[1::2], strict=True)
    ]
    drawn = integers(low, high, (1000,), 3, 4)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == expected
    assert low <= min(expected)
    assert max(expected) < high


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutation_is_the_order_of_the_words(n: int) -> None:
    words = [int(word) for word in random_words(None, 2 * n, 3, 4, 0)]
    keys = [(a << 32 | b, i) for i, (a, b) in enumerate(zip(words[::2], words[1::2], strict=True))]
    drawn = permutation(n, 3, 4)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == [i for _, i in sorted(keys)]
    with plain_formulas():
        np.testing.assert_array_equal(permutation(n, 3, 4), drawn)
    assert permutation(n, 3, 4, like=ShapeArray(())).shape == (n,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stream", [0, 1])
def test_distributions(stream: int, dtype: type[np.floating]) -> None:
    assert stats.kstest(uniform((MANY,), dtype, 20, stream), "uniform").pvalue > 1e-3
    z = normal((MANY,), dtype, 20, stream)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 4 / np.sqrt(MANY)
    assert abs(z.astype(np.float64).var() - 1) < 4 * np.sqrt(2 / MANY)
    assert abs((z[1:] * z[:-1]).mean()) < 4 / np.sqrt(MANY)


def test_discrete_distributions() -> None:
    counts = np.bincount(integers(0, 17, (MANY,), 21, 0), minlength=17)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.binomtest(int(bernoulli((MANY,), 0.1, 21, 1).sum()), MANY, 0.1).pvalue > 1e-3
    firsts = [int(permutation(6, 21, stream)[0]) for stream in range(6000)]
    assert stats.chisquare(np.bincount(firsts, minlength=6)).pvalue > 1e-3


def test_normal_is_symmetric_and_finite_at_the_ends() -> None:
    ends = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)
    z = normal_from_words(ends)
    np.testing.assert_array_equal(z, -z[::-1])
    assert np.isfinite(z).all()
    assert z[0] == pytest.approx(special.ndtri(2.0**-33), rel=1e-6)


@pytest.mark.parametrize("draw", [uniform, normal])
def test_bad_dtype(draw: Callable[..., np.ndarray]) -> None:
    with pytest.raises(DTypeError) as caught:
        draw((3,), np.int32, 0, 0)
    assert str(caught.value) == (
        f"{draw.__name__}: wanted float32, float64, float16 or bfloat16, got int32. Draw one of these and "
        "convert it with astype."
    )


@kind
def test_bad_places(draw: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ArgumentError, match=r"wanted an offset of 0 or more, got -4\."):
        draw((3,), seed=0, stream=0, offset=-4)
    with pytest.raises(ArgumentError, match=r"wanted lengths of 0 or more, got the shape \(3, -1\)\."):
        draw((3, -1), seed=0, stream=0)


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_bad_probability(p: float) -> None:
    with pytest.raises(ArgumentError) as caught:
        bernoulli((3,), p, 0, 0)
    assert str(caught.value) == f"bernoulli: wanted a probability p from 0 to 1, got {p}."


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 3), (0, 2**63 + 1), (-(2**63) - 1, 0)])
def test_bad_range(low: int, high: int) -> None:
    with pytest.raises(ArgumentError) as caught:
        integers(low, high, (3,), 0, 0)
    assert str(caught.value) == (
        f"integers: wanted low < high, both within int64, got low={low} and high={high}."
    )
