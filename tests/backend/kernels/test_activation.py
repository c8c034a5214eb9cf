"""Activations: fused code against formulas in double precision, and those against the definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special as scipy_special
from scipy import stats

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.activation.activation import (
    erf,
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
)
from shardwise.backend.kernels.kernel import Kernel
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
FORWARD = [gelu_forward, gelu_tanh_forward]
BACKWARD = [gelu_backward, gelu_tanh_backward]
EDGES = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-38, 1e-20, 3e4, -3e4, 1e30, -1e30, 5.9, -6.1]


def grid(dtype: type[np.floating]) -> np.ndarray:
    return np.linspace(-12, 12, 30_001).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_is_x_times_the_normal_distribution_function(dtype: type[np.floating]) -> None:
    x = grid(dtype)
    assert_close(gelu_forward.fused(x), x.astype(np.float64) * stats.norm.cdf(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_tanh_is_its_definition(dtype: type[np.floating]) -> None:
    x = grid(dtype)
    wide = x.astype(np.float64)
    expected = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    assert_close(gelu_tanh_forward.fused(x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("backward", "forward"), list(zip(BACKWARD, FORWARD, strict=True)))
def test_backward_is_the_slope(backward: Kernel, forward: Kernel, dtype: type[np.floating]) -> None:
    x, h = grid(dtype), 1e-5
    g = np.cos(x)
    wide = x.astype(np.float64)
    slope = (forward.plain(wide + h) - forward.plain(wide - h)) / (2 * h)
    assert np.abs(backward.fused(g, x) - g * slope).max() < max(tolerance(dtype), 1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", BACKWARD)
def test_fused_backward_is_the_formula(kernel: Kernel, dtype: type[np.floating]) -> None:
    x = grid(dtype)
    g = np.sin(3 * x)
    assert_close(kernel.fused(g, x), kernel.plain(*widened(g, x)))
    assert kernel.fused(g, x).dtype == kernel.plain(g, x).dtype == dtype


def test_erf_agrees_with_the_true_one_to_a_unit_in_the_last_place() -> None:
    x = np.concatenate([grid(np.float32), *(s * np.logspace(-45, 1, 5000) for s in (1, -1))]).astype(
        np.float32
    )
    expected = scipy_special.erf(x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(erf.fused(x) - expected) / unit) <= 1.01
    assert erf(np.array([1, -2])).dtype == np.float64


@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")  # the plain formula's, on edges
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [erf, *FORWARD])
def test_edges_of_forward(kernel: Kernel, dtype: type[np.floating]) -> None:
    x = np.array(EDGES, dtype)
    fused, plain = kernel.fused(x), kernel.plain(*widened(x))
    np.testing.assert_array_equal(np.isnan(fused), np.isnan(plain))
    finite = np.isfinite(plain)
    # 1 + erf and 1 + tanh leave an error that is absolute: of the size of the last place of x.
    room = tolerance(dtype) * np.maximum(np.abs(x[finite].astype(np.float64)), 1e-36)
    assert (np.abs(fused[finite] - plain[finite]) <= room).all()


@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", BACKWARD)
def test_slope_at_the_edges(kernel: Kernel, dtype: type[np.floating]) -> None:
    x = np.array(EDGES, dtype)
    slope = kernel.fused(np.ones_like(x), x)
    assert np.isnan(slope[:2]).all()
    assert not np.isnan(slope[2:]).any()
    assert slope[2] == 1.0  # at +inf
    assert abs(slope[3]) < 1e-30  # at -inf
    np.testing.assert_allclose(
        slope[2:], kernel.plain(*widened(np.ones_like(x), x))[2:], atol=tolerance(dtype)
    )


@pytest.mark.parametrize("kernel", FORWARD)
def test_layouts_do_not_matter(kernel: Kernel) -> None:
    x = np.random.default_rng(0).standard_normal((6, 5, 4)).astype(np.float32)
    expected = kernel(x.copy())
    np.testing.assert_array_equal(kernel(x.transpose(2, 0, 1)), expected.transpose(2, 0, 1))
    np.testing.assert_array_equal(kernel(x[::-1, ::2]), expected[::-1, ::2])
    x.flags.writeable = False
    np.testing.assert_array_equal(kernel(x), expected)
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape)
    assert not misaligned.flags.aligned
    np.testing.assert_array_equal(kernel(misaligned), expected)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (7,), (129,)])
@pytest.mark.parametrize("kernel", FORWARD)
def test_shapes(kernel: Kernel, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, np.float32)
    result = kernel(x)
    assert result.shape == shape
    np.testing.assert_allclose(result, kernel.plain(np.float64(0.5) + np.zeros(shape)), rtol=1e-6)


def test_mismatched_gradient() -> None:
    with pytest.raises(ShapeError) as caught:
        gelu_backward.fused(np.ones(3, np.float32), np.ones(4, np.float32))
    assert str(caught.value) == (
        "gelu_backward: the gradient has shape (3,), and the input (4,); wanted the same."
    )
