"""Gated units: fused code against SciPy in double precision, along every dim, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from shardwise.backend.kernels.activation.gate import (
    glu_backward,
    glu_forward,
    swiglu_backward,
    swiglu_forward,
)
from tolerance import assert_close

DTYPES = [np.float32, np.float64]
SHAPES = [
    ((6,), 0),
    ((5, 8), 1),
    ((4, 7), 0),
    ((2, 6, 5), 1),
    ((2, 6, 5), -2),
    ((2, 3, 130), -1),
    ((3, 0), 1),
]


def halves(x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.split(x.astype(np.float64), 2, axis=dim)
    return a, b


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_glu(shape: tuple[int, ...], dim: int, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    x = (4 * rng.standard_normal(shape)).astype(dtype)
    a, b = halves(x, dim)
    g = rng.standard_normal(a.shape).astype(dtype)
    slope = np.concatenate([g * expit(b), g * a * expit(b) * expit(-b)], axis=dim)
    for version in ("fused", "plain"):
        assert_close(getattr(glu_forward, version)(x, dim), a * expit(b))
        assert_close(getattr(glu_backward, version)(g, x, dim), slope)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6,), (5, 8), (2, 3, 130), (3, 0)])
def test_swiglu(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    x = (4 * rng.standard_normal(shape)).astype(dtype)
    a, b = halves(x, -1)
    g = rng.standard_normal(a.shape).astype(dtype)
    da = g * b * expit(a) * (1 + a * expit(-a))
    for version in ("fused", "plain"):
        assert_close(getattr(swiglu_forward, version)(x), a * expit(a) * b)
        assert_close(getattr(swiglu_backward, version)(g, x), np.concatenate([da, g * a * expit(a)], axis=-1))


@pytest.mark.parametrize("version", ["fused", "plain"])
def test_edges(version: str) -> None:
    gates = np.array([np.nan, np.inf, -np.inf, 0.0, 1e30, -1e30, 1e-42], np.float32)
    ones = np.ones_like(gates)
    x = np.concatenate([ones, gates])
    np.testing.assert_array_equal(getattr(glu_forward, version)(x, 0), [np.nan, 1, 0, 0.5, 1, 0, 0.5])
    slope = getattr(glu_backward, version)(ones, x, 0)
    np.testing.assert_array_equal(slope, [np.nan, 1, 0, 0.5, 1, 0, 0.5, np.nan, 0, 0, 0.25, 0, 0, 0.25])
    x = np.concatenate([gates, ones])
    expected = [np.nan, np.inf, 0, 0, 1e30, 0, 0]
    np.testing.assert_allclose(getattr(swiglu_forward, version)(x), expected, atol=1e-40, rtol=1e-6)
    slope = getattr(swiglu_backward, version)(ones, x)
    expected = [np.nan, 1, 0, 0.5, 1, 0, 0.5, *expected]
    np.testing.assert_allclose(slope, expected, atol=1e-15, rtol=1e-6)


def test_layouts() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((6, 8)).astype(np.float32), np.broadcast_to(np.float32(2.0), (6, 4))
    for turned in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2]):
        np.testing.assert_array_equal(glu_forward.fused(turned, 1), glu_forward.fused(x, 1))
        np.testing.assert_array_equal(swiglu_backward.fused(g, turned), swiglu_backward.fused(g.copy(), x))
