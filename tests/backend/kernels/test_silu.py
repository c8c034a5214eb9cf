"""SiLU: fused code against the definition in double precision, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from shardwise.backend.kernels.activation.silu import silu_backward, silu_forward
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-38, 88.0, -88.0, 750.0, -750.0, 1e30, -1e30]


def grid(dtype: type[np.floating]) -> np.ndarray:
    return np.linspace(-40, 40, 30_001).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_forward_is_exact_to_a_few_units_in_the_last_place(dtype: type[np.floating]) -> None:
    x = grid(dtype)
    wide = x.astype(np.float64)
    expected = wide * special.expit(wide)
    room = 4 * np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
    for version in (silu_forward.fused, silu_forward.plain):
        assert version(x).dtype == dtype
        assert (np.abs(version(x) - expected) <= room).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_backward_is_the_slope(dtype: type[np.floating]) -> None:
    x = grid(dtype)
    g = np.cos(x)
    wide = x.astype(np.float64)
    slope = special.expit(wide) * (1 + wide * special.expit(-wide))
    for version in (silu_backward.fused, silu_backward.plain):
        assert version(g, x).dtype == dtype
        np.testing.assert_allclose(version(g, x), g * slope, rtol=0, atol=2 * tolerance(dtype))
    assert_close(silu_backward.fused(g, x), silu_backward.plain(*widened(g, x)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_edges(dtype: type[np.floating]) -> None:
    x = np.array(EDGES, dtype)
    for forward, backward in (
        (silu_forward.fused, silu_backward.fused),
        (silu_forward.plain, silu_backward.plain),
    ):
        y, slope = forward(x), backward(np.ones_like(x), x)
        assert np.isnan(y[0])
        assert np.isnan(slope[0])
        assert y[1] == np.inf
        np.testing.assert_allclose(y[2:5], 0.0)
        np.testing.assert_allclose(y[5:], np.where(x[5:] > 80, x[5:], 0.0), atol=1e-30)
        steepness = [1, 0, 0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0, 1, 0]
        np.testing.assert_allclose(slope[1:], steepness, atol=tolerance(dtype))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (4, 5)])
def test_shapes_and_layouts(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = np.asarray(x)
    expected = (x * special.expit(x)).astype(np.float32)
    assert silu_forward(x).shape == shape
    np.testing.assert_allclose(silu_forward(x.T), expected.T, rtol=1e-6)
    if shape:
        np.testing.assert_allclose(silu_forward(x[::-1]), expected[::-1], rtol=1e-6)
    np.testing.assert_allclose(silu_backward(x.T, x.T), silu_backward(x, x).T)
