"""Exponentials for compiled kernels, seen through kernels that are little else: accuracy, and the ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shardwise.backend.kernels.activation.rectifier import elu_backward, elu_forward
from shardwise.backend.kernels.activation.smooth import (
    log_sigmoid_forward,
    sigmoid_forward,
    tanh_shrink_backward,
)

DTYPES = [np.float32, np.float64]


def exp(x: np.ndarray) -> np.ndarray:
    """Of numbers that are not above 0."""
    return elu_backward.fused(np.ones_like(x), x, 1.0, 1.0, 1.0)


def expm1(x: np.ndarray) -> np.ndarray:
    """Of numbers that are not above 0."""
    return elu_forward.fused(x, 1.0, 1.0, 1.0)


def log1p_of_exp(x: np.ndarray) -> np.ndarray:
    """``log(1 + exp(-x))`` of numbers above 0."""
    return -log_sigmoid_forward.fused(x)


def squared_tanh(x: np.ndarray) -> np.ndarray:
    return tanh_shrink_backward.fused(np.ones_like(x), x)


# What it is, what to compare it with, where, and how many units in the last place it may be off.
CASES: list[tuple[Callable[..., Any], Callable[..., Any], float, float, float]] = [
    (exp, np.exp, -87.0, 0.0, 1.5),
    (expm1, np.expm1, -40.0, 0.0, 1.5),
    (log1p_of_exp, lambda x: np.log1p(np.exp(-x)), 0.0, 87.0, 3.0),
    (sigmoid_forward.fused, lambda x: 1 / (1 + np.exp(-x)), -80.0, 40.0, 3.0),
    (squared_tanh, lambda x: np.tanh(x) ** 2, -12.0, 12.0, 7.0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_few_units_in_the_last_place(case: int, dtype: type[np.floating]) -> None:
    function, reference, low, high, most = CASES[case]
    rng = np.random.default_rng(1)
    near = rng.uniform(max(low, -1.0), min(high, 1.0), 5000)
    x = np.concatenate([rng.uniform(low, high, 20_000), near, 1e-6 * near]).astype(dtype)
    expected = reference(x.astype(np.longdouble))
    unit = np.spacing(np.abs(expected).astype(dtype)).astype(np.longdouble)
    off = np.abs(function(x) - expected) / unit
    assert off.max() <= most, x[off.argmax()]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ends(dtype: type[np.floating]) -> None:
    x = np.array([np.nan, -np.inf, 0.0, -1e4, -1e-42], dtype)
    np.testing.assert_array_equal(exp(x), np.array([np.nan, 0, 1, 0, 1], dtype))
    np.testing.assert_array_equal(expm1(x), np.array([np.nan, -1, 0, -1, x[-1]], dtype))
    np.testing.assert_array_equal(sigmoid_forward.fused(x), np.array([np.nan, 0, 0.5, 0, 0.5], dtype))
    np.testing.assert_array_equal(sigmoid_forward.fused(-x), np.array([np.nan, 1, 0.5, 1, 0.5], dtype))
    np.testing.assert_array_equal(squared_tanh(x)[:4], np.array([np.nan, 1, 0, 1], dtype))
    np.testing.assert_allclose(log1p_of_exp(-x), [np.nan, 0, np.log(2), 0, np.log(2)], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -103.0), (np.float64, -744.0)])
def test_exp_underflows_gradually(dtype: type[np.floating], lowest: float) -> None:
    x = np.linspace(lowest, lowest + 18.0, 1000).astype(dtype)
    result = exp(x)
    assert (result > 0).all()
    smallest = np.finfo(dtype).smallest_subnormal.astype(np.longdouble)
    expected = np.exp(x.astype(np.longdouble))
    assert (np.abs(result - expected) <= np.maximum(smallest, 1.5 * np.spacing(result))).all()
