"""Layer normalisation: fused code against the definition in double precision, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
EPS = 1e-5


def definition(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    x = x.astype(np.float64)
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
    return y * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)


def sample(shape: tuple[int, ...], dtype: type[np.floating]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = (shape, shape, shape[-1:], shape[-1:])
    return [(rng.standard_normal(s) + 0.5).astype(dtype) for s in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 16), (3, 2, 33), (10,), (300, 5), (2, 1)])
@pytest.mark.parametrize("affine", ["both", "weight", "bias", "none"])
def test_forward(affine: str, shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    x, _, weight, bias = sample(shape, dtype)
    w = weight if affine in ("both", "weight") else None
    b = bias if affine in ("both", "bias") else None
    y, mean, rstd = layer_norm_forward.fused(x, w, b, EPS)
    assert y.dtype == mean.dtype == rstd.dtype == dtype
    assert_close(y, definition(x, w, b), shape[-1])
    wide = x.astype(np.float64)
    assert_close(mean, wide.mean(-1), shape[-1])
    assert_close(rstd, 1 / np.sqrt(wide.var(-1) + EPS), shape[-1])
    for fused, plain in zip((y, mean, rstd), layer_norm_forward.plain(*widened(x, w, b), EPS), strict=True):
        assert_close(fused, plain, shape[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 16), (3, 2, 33), (10,), (300, 5)])
@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_fused_backward_is_the_formula(
    affine: bool, saved: bool, shape: tuple[int, ...], dtype: type[np.floating]
) -> None:
    x, g, weight, bias = sample(shape, dtype)
    w = weight if affine else None
    _, mean, rstd = layer_norm_forward.fused(x, w, bias, EPS)
    statistics = (mean, rstd) if saved else (None, None)
    fused = layer_norm_backward.fused(g, x, w, *statistics, EPS)
    plain = layer_norm_backward.plain(*widened(g, x, w, None, None), EPS)
    for a, b in zip(fused, plain, strict=True):
        assert a.dtype == dtype
        assert_close(a, b, x.size)


def test_backward_is_the_gradient() -> None:
    x, g, weight, bias = sample((5, 7), np.float64)
    dx, dweight, dbias = layer_norm_backward.plain(g, x, weight, None, None, EPS)
    h = 1e-6
    for array, gradient in ((x, dx), (weight, dweight), (bias, dbias)):
        numeric = np.empty_like(array)
        for place in np.ndindex(array.shape):
            value = array[place]
            array[place] = value + h
            above = (g * definition(x, weight, bias)).sum()
            array[place] = value - h
            below = (g * definition(x, weight, bias)).sum()
            array[place] = value
            numeric[place] = (above - below) / (2 * h)
        np.testing.assert_allclose(gradient, numeric, atol=1e-7)


def test_errors_of_parameter_gradients_do_not_grow_with_the_rows() -> None:
    rows = 200_000
    x = np.random.default_rng(6).standard_normal((rows, 4)).astype(np.float32)
    g = np.ones_like(x)
    _, mean, rstd = layer_norm_forward(x, None, None, EPS)
    _, _, dbias = layer_norm_backward(g * np.float32(0.1), x, None, mean, rstd, EPS)
    np.testing.assert_allclose(dbias, rows * np.float64(np.float32(0.1)), rtol=2e-5)


def test_a_large_mean_does_not_swallow_the_variance() -> None:
    x = (np.random.default_rng(7).standard_normal((3, 64)) + 1000.0).astype(np.float32)
    y, _, _ = layer_norm_forward(x, None, None, EPS)
    assert np.abs(y - definition(x, None, None)).max() < 1e-3


def test_a_nan_spoils_its_row_only() -> None:
    x, g, weight, bias = sample((4, 9), np.float32)
    clean, _, _ = layer_norm_forward(x, weight, bias, EPS)
    x[2, 5] = np.nan
    y, mean, rstd = layer_norm_forward(x, weight, bias, EPS)
    assert np.isnan(y[2]).all()
    assert np.isnan(mean[2])
    assert np.isnan(rstd[2])
    np.testing.assert_array_equal(np.delete(y, 2, 0), np.delete(clean, 2, 0))
    dx, dweight, dbias = layer_norm_backward(g, x, weight, mean, rstd, EPS)
    assert np.isnan(dx[2]).all()
    assert not np.isnan(np.delete(dx, 2, 0)).any()
    assert np.isnan(dweight).all()
    assert not np.isnan(dbias).any()


def test_a_constant_row_is_normalised_to_zero() -> None:
    y, mean, rstd = layer_norm_forward(np.full((2, 8), 3.0, np.float32), None, None, EPS)
    np.testing.assert_array_equal(y, 0.0)
    np.testing.assert_array_equal(mean, 3.0)
    np.testing.assert_allclose(rstd, EPS**-0.5, rtol=tolerance(np.float32))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4)])
def test_no_rows(shape: tuple[int, ...]) -> None:
    x, w = np.zeros(shape, np.float32), np.ones(4, np.float32)
    y, mean, rstd = layer_norm_forward(x, w, w, EPS)
    dx, dweight, dbias = layer_norm_backward(x, x, w, mean, rstd, EPS)
    assert y.shape == dx.shape == shape
    assert mean.shape == rstd.shape == shape[:-1]
    np.testing.assert_array_equal([dweight, dbias], 0.0)


def test_strided_input() -> None:
    x, g, weight, bias = sample((6, 5, 8), np.float32)
    turned, turned_g = x.transpose(1, 0, 2), g.transpose(1, 0, 2)
    y, mean, rstd = layer_norm_forward(turned, weight[::-1], bias, EPS)
    expected, _, _ = layer_norm_forward(turned.copy(), weight[::-1].copy(), bias, EPS)
    np.testing.assert_array_equal(y, expected)
    ours = layer_norm_backward(turned_g, turned, weight, mean, rstd, EPS)
    copies = layer_norm_backward(turned_g.copy(), turned.copy(), weight, mean.copy(), rstd.copy(), EPS)
    for a, b in zip(ours, copies, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_shapes() -> None:
    x = np.ones((2, 3), np.float32)
    for version in (layer_norm_forward.fused, layer_norm_forward.plain):
        with pytest.raises(ShapeError) as caught:
            version(x, np.ones(4, np.float32), None, EPS)
        assert str(caught.value) == "layer_norm: weight has shape (4,), and the input (2, 3); wanted (3,)."
        with pytest.raises(ShapeError, match=r"layer_norm: bias has shape \(1, 3\), and the input"):
            version(x, None, np.ones((1, 3), np.float32), EPS)
    with pytest.raises(ShapeError, match=r"the gradient has shape \(2, 4\), and the input \(2, 3\)"):
        layer_norm_backward(np.ones((2, 4), np.float32), x, None, None, None, EPS)


@pytest.mark.parametrize("eps", [EPS, 0.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "row", [[1.0, 2.0, np.inf], [-np.inf, 0.0, 1.0], [1.0, np.nan, 2.0], [0.0] * 3, [1e-42, 0.0, 0.0]]
)
def test_rows_without_a_number_for_their_size(row: list[float], dtype: type[np.floating], eps: float) -> None:
    big = [1.0, 2.0, float(np.finfo(dtype).max) / 2.0]  # whose square is infinite
    x = np.array([row, big, [1.0, 2.0, 4.0]], dtype)
    with np.errstate(all="ignore"):
        wanted = layer_norm_forward.plain(x, None, None, eps)
    for fused, plain in zip(layer_norm_forward.fused(x, None, None, eps), wanted, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-6)
