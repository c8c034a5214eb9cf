"""Softmax and log-softmax: fused code against formulas in double precision, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy_special

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.kernel import Kernel, plain_formulas
from shardwise.backend.kernels.row.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from tolerance import assert_close, tolerance

DTYPES = [np.float32, np.float64]
PAIRS = [
    (softmax_forward, softmax_backward, scipy_special.softmax),
    (log_softmax_forward, log_softmax_backward, scipy_special.log_softmax),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 1), (1, 1000), (4, 33), (5,)])
@pytest.mark.parametrize(("forward", "backward", "oracle"), PAIRS)
def test_against_scipy(
    forward: Kernel, backward: Kernel, oracle: object, shape: tuple[int, ...], dtype: type[np.floating]
) -> None:
    x = (5 * np.random.default_rng(1).standard_normal(shape)).astype(dtype)
    y = forward.fused(x)
    assert y.dtype == dtype
    assert_close(y, oracle(x.astype(np.float64), axis=-1), shape[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("forward", "backward", "oracle"), PAIRS)
def test_backward_is_the_transposed_jacobian(
    forward: Kernel, backward: Kernel, oracle: object, dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(2)
    x, g = rng.standard_normal((2, 40, 9))
    h = 1e-6
    expected = np.empty_like(x)
    for j in range(9):
        step = h * np.eye(9)[j]
        slope = (oracle(x + step, axis=-1) - oracle(x - step, axis=-1)) / (2 * h)
        expected[:, j] = (g * slope).sum(axis=-1)
    dx = backward.fused(g.astype(dtype), forward.fused(x.astype(dtype)))
    assert np.abs(dx - expected).max() < max(tolerance(dtype, 9) * np.abs(expected).max(), 1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("forward", "backward", "oracle"), PAIRS)
def test_huge_logits_do_not_overflow(
    forward: Kernel, backward: Kernel, oracle: object, dtype: type[np.floating]
) -> None:
    x = np.array([[3e38, 3e38, -3e38], [1000.0, 999.0, 0.0], [-1e30, -1e30, -1e30]], dtype)
    with np.errstate(over="ignore"):  # the difference of two huge numbers, in the oracle too
        expected = oracle(x.astype(np.float64), axis=-1).astype(dtype)
    np.testing.assert_allclose(forward.fused(x), expected, rtol=tolerance(dtype, 3), atol=1e-37)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_logits_have_probability_zero(dtype: type[np.floating]) -> None:
    x = np.array([[-np.inf, 0.0, np.log(3.0), -np.inf], [-np.inf, -np.inf, -5.0, -np.inf]], dtype)
    np.testing.assert_allclose(softmax_forward.fused(x), [[0, 0.25, 0.75, 0], [0, 0, 1, 0]], rtol=1e-6)
    assert (softmax_forward.fused(x)[x == -np.inf] == 0.0).all()
    logarithms = log_softmax_forward.fused(x)
    assert (logarithms[x == -np.inf] == -np.inf).all()
    gradient = log_softmax_backward.fused(np.ones_like(x), logarithms)
    np.testing.assert_allclose(gradient, 1 - 4 * softmax_forward.fused(x), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # the plain formula warns, as NumPy does
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 3, 16])
@pytest.mark.parametrize("kernel", [softmax_forward, log_softmax_forward])
def test_a_bad_logit_spoils_its_row_only(
    kernel: Kernel, place: int, bad: float, dtype: type[np.floating]
) -> None:
    x = np.random.default_rng(3).standard_normal((3, 17)).astype(dtype)
    clean = kernel.fused(x)
    x[1, place] = bad
    y = kernel.fused(x)
    with plain_formulas():
        np.testing.assert_array_equal(np.isnan(y), np.isnan(kernel(x)))
    assert np.isnan(y[1]).sum() >= (17 if np.isnan(bad) else 1)
    np.testing.assert_array_equal(y[[0, 2]], clean[[0, 2]])


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kernel", [softmax_forward, log_softmax_forward])
def test_a_row_without_any_logit_is_nan(kernel: Kernel) -> None:
    x = np.full((1, 5), -np.inf, np.float32)
    assert np.isnan(kernel.fused(x)).all()
    assert np.isnan(kernel.plain(x)).all()


def test_tiny_probabilities_underflow_gradually() -> None:
    x = np.array([[0.0, -80.0, -95.0, -103.0, -110.0]], np.float32)
    expected = scipy_special.softmax(x.astype(np.float64), axis=-1)
    np.testing.assert_allclose(softmax_forward.fused(x), expected, rtol=1e-6, atol=1.5e-45)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)])
@pytest.mark.parametrize("kernel", [softmax_forward, log_softmax_forward])
def test_empty_arrays(kernel: Kernel, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert kernel.fused(x).shape == kernel.plain(x).shape == shape


@pytest.mark.parametrize("kernel", [softmax_forward, log_softmax_forward])
def test_strided_rows(kernel: Kernel) -> None:
    x = np.random.default_rng(4).standard_normal((8, 6, 10)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x.transpose(1, 0, 2)[:, ::3]), kernel(x).transpose(1, 0, 2)[:, ::3])
    np.testing.assert_array_equal(kernel(x[..., ::2]), kernel(x[..., ::2].copy()))


@pytest.mark.parametrize("kernel", [softmax_backward, log_softmax_backward])
def test_mismatched_gradient(kernel: Kernel) -> None:
    with pytest.raises(ShapeError) as caught:
        kernel(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    assert str(caught.value) == (
        f"{kernel.name}: the gradient has shape (2, 3), and the output (3, 2); wanted the same."
    )
