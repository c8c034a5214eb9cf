"""Casts to floats of 16 bits and back, bit by bit against NumPy's and those of ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from shardwise.backend.kernels.pointwise.casting import cast, to_bfloat16, to_float16, widened_float16
from shardwise.backend.kernels.pointwise.casting_cpu import portable_to_float16, portable_widened_float16

EVERY = np.arange(1 << 16, dtype=np.uint16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")


def assert_same_bits(result: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the sign of zero; NaN in the same places."""
    assert result.dtype == expected.dtype
    word = np.dtype(f"u{result.itemsize}")
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(result.astype(np.float32)), nan)
    np.testing.assert_array_equal(result[~nan].view(word), expected[~nan].view(word))


def hard(dtype: np.dtype) -> np.ndarray:
    """All numbers of `dtype`, the middles between neighbours, what is next to these, and random bits."""
    exact = EVERY.view(dtype).astype(np.float64)
    with np.errstate(invalid="ignore"):
        middle = ((exact[:-1] + exact[1:]) / 2).astype(np.float32)
    around = [np.nextafter(middle, np.float32(end)) for end in (np.inf, -np.inf)]
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    edges = [65519.996, 65520, 65504, 1e30, -1e30, np.inf, -np.inf, np.nan, 0, -0.0, 1e-45]
    return np.concatenate([exact.astype(np.float32), middle, *around, bits, np.array(edges, np.float32)])


@pytest.mark.parametrize("version", [to_float16.fused, portable_to_float16])
def test_rounding_to_float16(version: Callable[[np.ndarray], np.ndarray]) -> None:
    x = hard(np.dtype(np.float16))
    assert_same_bits(version(x), x.astype(np.float16))


def test_rounding_to_bfloat16() -> None:
    x = hard(BFLOAT16)
    assert_same_bits(to_bfloat16.fused(x), x.astype(BFLOAT16))


@pytest.mark.parametrize("version", [widened_float16.fused, portable_widened_float16])
def test_widening_of_every_float16(version: Callable[[np.ndarray], np.ndarray]) -> None:
    assert_same_bits(version(EVERY), EVERY.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("target", [np.dtype(np.float16), BFLOAT16])
@pytest.mark.parametrize(
    "view", [lambda x: x, lambda x: x.T, lambda x: x[::2, ::-1], lambda x: np.broadcast_to(x[:1], x.shape)]
)
def test_casts_of_any_layout(view: Callable[[np.ndarray], np.ndarray], target: np.dtype) -> None:
    x = view(np.random.default_rng(1).standard_normal((200, 300)).astype(np.float32))
    narrow = cast(x, target)
    assert_same_bits(narrow, x.astype(target))
    assert_same_bits(cast(narrow, np.float32), x.astype(target).astype(np.float32))
    assert not np.shares_memory(narrow, x)


def test_results_are_laid_out_like_their_inputs_and_own_their_memory() -> None:
    x = np.ones((200, 300), np.float32)
    assert cast(x, np.float16).base is None
    assert cast(x.T, np.float16).strides == (2, 600)


def test_other_casts_are_numpys() -> None:
    for x in (np.ones(20_000), np.arange(20_000), np.ones(3, np.float32), np.ones(20_000, BFLOAT16)):
        for target in (np.float16, np.float32, np.float64, np.int32):
            result = cast(x, np.dtype(target))
            np.testing.assert_array_equal(result, x.astype(target))
            assert result.dtype == target
            assert result is not x
