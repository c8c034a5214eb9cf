"""Batch, group and root-mean-square normalisation: fused code against the formulas in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.channel.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.channel.group_norm import group_norm_backward, group_norm_forward
from shardwise.backend.kernels.row.rms_norm import rms_norm_backward, rms_norm_forward
from tolerance import assert_close, widened

DTYPES = [np.float32, np.float64]
EPS = 1e-5


def sample(shape: tuple[int, ...], features: int, dtype: type[np.floating]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = (shape, shape, (features,), (features,))
    return [(rng.standard_normal(s) + 0.5).astype(dtype) for s in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("shape", [(7, 4), (300, 4), (5, 4, 1), (3, 4, 6), (2, 4, 3, 5), (1, 4, 2, 2, 2)])
def test_batch_norm(shape: tuple[int, ...], affine: str, dtype: type[np.floating]) -> None:
    x, g, weight, bias = sample(shape, 4, dtype)
    w, b = (None if affine == "none" else weight), (bias if affine == "both" else None)
    y, mean, variance = batch_norm_forward.fused(x, w, b, EPS)
    assert y.dtype == mean.dtype == variance.dtype == dtype
    for fused, plain in zip(
        (y, mean, variance), batch_norm_forward.plain(*widened(x, w, b), EPS), strict=True
    ):
        assert_close(fused, plain, x.size // 4)
    for statistics in ((mean, variance), (None, None)):
        ours = batch_norm_backward.fused(g, x, w, *statistics, EPS)
        wanted = batch_norm_backward.plain(*widened(g, x, w, None, None), EPS)
        for fused, plain in zip(ours, wanted, strict=True):
            assert fused.dtype == dtype
            assert_close(fused, plain, x.size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", [(7, 4), (3, 4, 6), (2, 4, 3, 5), (0, 4, 3)])
def test_group_norm(shape: tuple[int, ...], groups: int, affine: str, dtype: type[np.floating]) -> None:
    x, g, weight, bias = sample(shape, 4, dtype)
    w, b = (None if affine == "none" else weight), (bias if affine == "both" else None)
    y, mean, variance = group_norm_forward.fused(x, w, b, groups, EPS)
    assert mean.shape == variance.shape == (shape[0], groups)
    plain_results = group_norm_forward.plain(*widened(x, w, b), groups, EPS)
    for fused, plain in zip((y, mean, variance), plain_results, strict=True):
        assert fused.dtype == dtype
        assert_close(fused, plain, max(x[:1].size, 1))
    # Of two elements the gradient cancels; this is the size of its terms.
    terms = float(4 * (variance.min(initial=1.0) + EPS) ** -0.5)
    for statistics in ((mean, variance), (None, None)):
        ours = group_norm_backward.fused(g, x, w, *statistics, groups, EPS)
        wanted = group_norm_backward.plain(*widened(g, x, w, None, None), groups, EPS)
        for fused, plain in zip(ours, wanted, strict=True):
            assert_close(fused, plain, max(x.size, 1), terms)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(4, 16), (3, 2, 33), (10,), (300, 5), (2, 1), (0, 3)])
def test_rms_norm(shape: tuple[int, ...], affine: bool, dtype: type[np.floating]) -> None:
    x, g, weight, _ = sample(shape, shape[-1], dtype)
    w = weight if affine else None
    y, scale = rms_norm_forward.fused(x, w, EPS)
    assert scale.shape == shape[:-1]
    for fused, plain in zip((y, scale), rms_norm_forward.plain(*widened(x, w), EPS), strict=True):
        assert fused.dtype == dtype
        assert_close(fused, plain, shape[-1])
    for saved in (scale, None):
        ours = rms_norm_backward.fused(g, x, w, saved, EPS)
        wanted = rms_norm_backward.plain(*widened(g, x, w, None), EPS)
        for fused, plain in zip(ours, wanted, strict=True):
            assert_close(fused, plain, max(x.size, 1), float(4 * scale.max(initial=1.0)))


@pytest.mark.parametrize("eps", [EPS, 0.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "row", [[1.0, 2.0, np.inf], [-np.inf, 0.0, 1.0], [1.0, np.nan, 2.0], [0.0] * 3, [1e-42, 0.0, 0.0]]
)
def test_rms_norm_of_rows_without_a_number_for_their_size(
    row: list[float], dtype: type[np.floating], eps: float
) -> None:
    big = [1.0, 2.0, float(np.finfo(dtype).max) / 2.0]  # whose square is infinite
    x = np.array([row, big, [1.0, 2.0, 4.0]], dtype)
    with np.errstate(all="ignore"):
        wanted = rms_norm_forward.plain(x, None, eps)
    for fused, plain in zip(rms_norm_forward.fused(x, None, eps), wanted, strict=True):
        np.testing.assert_allclose(fused, plain, rtol=1e-6)


def test_backward_is_the_gradient() -> None:
    x, g, weight, bias = sample((3, 2, 3), 2, np.float64)
    h = 1e-6

    def check(forward: object, array: np.ndarray, gradient: np.ndarray) -> None:
        numeric = np.empty_like(array)
        for place in np.ndindex(array.shape):
            value, sides = array[place], []
            for step in (h, -h):
                array[place] = value + step
                sides.append((g * forward()).sum())  # type: ignore[operator]
            array[place] = value
            numeric[place] = (sides[0] - sides[1]) / (2 * h)
        np.testing.assert_allclose(gradient, numeric, atol=1e-7)

    dx, dweight, dbias = batch_norm_backward.plain(g, x, weight, None, None, EPS)
    for array, gradient in ((x, dx), (weight, dweight), (bias, dbias)):
        check(lambda: batch_norm_forward.plain(x, weight, bias, EPS)[0], array, gradient)
    dx, dweight, dbias = group_norm_backward.plain(g, x, weight, None, None, 1, EPS)
    for array, gradient in ((x, dx), (weight, dweight), (bias, dbias)):
        check(lambda: group_norm_forward.plain(x, weight, bias, 1, EPS)[0], array, gradient)
    scale = np.ones(3)
    dx, dscale = rms_norm_backward.plain(g, x, scale, None, EPS)
    for array, gradient in ((x, dx), (scale, dscale)):
        check(lambda: rms_norm_forward.plain(x, scale, EPS)[0], array, gradient)


def test_sums_over_many_rows_stay_exact() -> None:
    x = np.random.default_rng(6).standard_normal((100_000, 2)).astype(np.float32) + np.float32(100)
    y, mean, variance = batch_norm_forward(x, None, None, EPS)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-7)
    np.testing.assert_allclose(variance, wide.var(0), rtol=1e-6)
    g = np.full_like(x, 0.1)
    _, _, dbias = batch_norm_backward(g, x, None, mean, variance, EPS)
    np.testing.assert_allclose(dbias, 1e5 * np.float64(np.float32(0.1)), rtol=1e-7)
    assert np.abs(y.astype(np.float64).mean(0)).max() < 1e-5


def test_nan_spoils_its_own_alone() -> None:
    x, g, weight, bias = sample((3, 4, 5), 4, np.float32)
    x[1, 2, 3] = np.nan
    y, mean, _ = batch_norm_forward(x, weight, bias, EPS)
    assert np.isnan(y[:, 2]).all()
    assert np.isnan(y).sum() == 15
    assert np.isnan(mean).tolist() == [False, False, True, False]
    y, mean, variance = group_norm_forward(x, weight, bias, 2, EPS)
    assert np.isnan(y[1, 2:]).all()
    assert np.isnan(y).sum() == 10
    dx, _, dbias = group_norm_backward(g, x, weight, mean, variance, 2, EPS)
    assert np.isnan(dx).sum() == 10
    assert not np.isnan(dbias).any()
    rows, _ = rms_norm_forward(x, None, EPS)
    assert np.isnan(rows).sum() == 5


def test_strided_arrays() -> None:
    x, g, weight, bias = sample((5, 4, 6), 4, np.float32)
    turned, turned_g = np.moveaxis(x, 0, 2), np.moveaxis(g, 0, 2)
    for forward, backward, extra in (
        (batch_norm_forward, batch_norm_backward, ()),
        (group_norm_forward, group_norm_backward, (2,)),
    ):
        results = forward(turned, weight, bias, *extra, EPS)
        for a, b in zip(results, forward(turned.copy(), weight, bias, *extra, EPS), strict=True):
            np.testing.assert_array_equal(a, b)
        ours = backward(turned_g, turned, weight, *results[1:], *extra, EPS)
        copies = backward(turned_g.copy(), turned.copy(), weight, *results[1:], *extra, EPS)
        for a, b in zip(ours, copies, strict=True):
            np.testing.assert_array_equal(a, b)


def test_bad_shapes() -> None:
    x = np.ones((2, 3), np.float32)
    for version in (rms_norm_forward.fused, rms_norm_forward.plain):
        with pytest.raises(ShapeError) as caught:
            version(x, np.ones(4, np.float32), EPS)
        assert str(caught.value) == "rms_norm: weight has shape (4,), and the input (2, 3); wanted (3,)."
    with pytest.raises(ShapeError, match=r"the gradient has shape \(2, 4\), and the input \(2, 3\)"):
        rms_norm_backward(np.ones((2, 4), np.float32), x, None, None, EPS)
