"""Attention: against a loop over queries in double precision, on views, masks and rectangles."""

from __future__ import annotations

import numpy as np
import pytest

from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.attention import attention_backward, attention_forward
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
# 150 and 300 are more than one block of rows; queries and keys differ in number both ways.
LENGTHS = [(1, 1), (5, 5), (150, 150), (300, 300), (7, 150), (150, 7), (1, 9)]


def sample(t: int, s: int, dtype: type[np.floating], lead: tuple[int, ...] = (2, 3)) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    shapes = ((*lead, t, 4), (*lead, s, 4), (*lead, s, 6), (*lead, t, 6))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def one_query_at_a_time(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    y, p = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros((*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(q.shape[:-1]):
        *lead, i = place
        seen = min(i + 1, k.shape[-2]) if causal else k.shape[-2]
        scores = k[*lead, :seen].astype(np.float64) @ q[place].astype(np.float64) * scale
        weights = np.exp(scores - scores.max())
        p[*place, :seen] = weights / weights.sum()
        y[place] = p[*place, :seen] @ v[*lead, :seen]
    return y, p


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("t", "s"), LENGTHS)
def test_forward(t: int, s: int, causal: bool, dtype: type[np.floating]) -> None:
    q, k, v, _ = sample(t, s, dtype)
    expected_y, expected_p = one_query_at_a_time(q, k, v, 0.7, causal)
    for version in (attention_forward.fused, attention_forward.plain):
        y, p = version(q, k, v, 0.7, causal)
        assert y.dtype == p.dtype == dtype
        assert_close(y, expected_y, s)
        assert_close(p, expected_p, s)
    y, p = attention_forward.fused(q, k, v, 0.7, causal)
    if causal:
        assert not np.triu(p, 1).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("t", "s"), LENGTHS)
@pytest.mark.parametrize("saved", [True, False])
def test_fused_backward_is_the_formula(
    saved: bool, t: int, s: int, causal: bool, dtype: type[np.floating]
) -> None:
    q, k, v, g = sample(t, s, dtype)
    y, p = attention_forward(q, k, v, 0.7, causal) if saved else (None, None)
    fused = attention_backward.fused(g, q, k, v, p, y, 0.7, causal)
    plain = attention_backward.plain(*widened(g, q, k, v), None, None, 0.7, causal)
    for ours, reference in zip(fused, plain, strict=True):
        assert ours.dtype == dtype
        assert_close(ours, reference, t + s, scale=1.0)


@pytest.mark.parametrize("causal", [True, False])
def test_backward_is_the_gradient(causal: bool) -> None:
    q, k, v, g = sample(4, 3, np.float64, lead=())
    gradients = attention_backward.plain(g, q, k, v, None, None, 0.7, causal)
    h = 1e-6
    for array, gradient in zip((q, k, v), gradients, strict=True):
        for place in np.ndindex(array.shape):
            value = array[place]
            sides = []
            for shifted in (value + h, value - h):
                array[place] = shifted
                sides.append((g * one_query_at_a_time(q, k, v, 0.7, causal)[0]).sum())
            array[place] = value
            assert abs(gradient[place] - (sides[0] - sides[1]) / (2 * h)) < 1e-8


@pytest.mark.parametrize("causal", [True, False])
def test_heads_of_one_projection_are_used_and_written_in_place(causal: bool) -> None:
    rng = np.random.default_rng(10)
    batch, t, heads, d = 2, 140, 3, 8
    joined = rng.standard_normal((batch, t, 3, heads, d)).astype(np.float32)
    q, k, v = joined.transpose(2, 0, 3, 1, 4)
    y, p = attention_forward(q, k, v, d**-0.5, causal)
    assert y.swapaxes(-3, -2).flags.c_contiguous
    assert np.shares_memory(y.swapaxes(-3, -2).reshape(batch, t, heads * d), y)
    copies = [np.ascontiguousarray(x) for x in (q, k, v)]
    np.testing.assert_allclose(y, attention_forward(*copies, d**-0.5, causal)[0], rtol=1e-6, atol=1e-6)
    g = rng.standard_normal((batch, t, heads, d)).astype(np.float32).transpose(0, 2, 1, 3)
    gradient = np.full_like(joined, np.nan)
    out = tuple(gradient.transpose(2, 0, 3, 1, 4))
    returned = attention_backward(g, q, k, v, p, y, d**-0.5, causal, out=out)
    for ours, given, expected in zip(
        returned, out, attention_backward(g, *copies, p, y, d**-0.5, causal), strict=True
    ):
        assert ours is given
        assert_close(ours, expected.astype(np.float64), t)
    plain_gradient = np.empty_like(joined)
    attention_backward.plain(
        g, q, k, v, p, y, d**-0.5, causal, out=tuple(plain_gradient.transpose(2, 0, 3, 1, 4))
    )
    assert_close(gradient, plain_gradient.astype(np.float64), t)


def test_operands_that_blas_cannot_take() -> None:
    q, k, v, g = sample(9, 9, np.float32)
    wide = np.repeat(q, 2, axis=-1)[..., ::2]  # a last dim with gaps
    turned = np.ascontiguousarray(k.swapaxes(-1, -2)).swapaxes(-1, -2)
    shared = np.broadcast_to(v[:1, :1], v.shape)
    y, p = attention_forward(wide, turned, shared, 0.5, True)
    expected, _ = attention_forward(q, k, shared.copy(), 0.5, True)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    ours = attention_backward(np.broadcast_to(g[:1], g.shape), wide, turned, shared, p, y, 0.5, True)
    reference = attention_backward(
        np.broadcast_to(g[:1], g.shape).copy(), q, k, shared.copy(), p, y, 0.5, True
    )
    for a, b in zip(ours, reference, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-3, 30.0])
@pytest.mark.parametrize("causal", [True, False])
def test_any_scale(causal: bool, scale: float) -> None:
    q, k, v, _ = sample(6, 6, np.float32)
    expected, _ = one_query_at_a_time(q, k, v, scale, causal)
    y, _ = attention_forward.fused(q, k, v, scale, causal)
    np.testing.assert_allclose(y, expected, atol=40 * tolerance(np.float32) * max(abs(scale), 1.0))


def test_huge_scores_do_not_overflow() -> None:
    q, k, v, _ = sample(5, 5, np.float32)
    y, p = attention_forward.fused(q * 1e15, k * 1e15, v, 1.0, True)
    np.testing.assert_allclose(p.sum(-1), 1.0, rtol=1e-6)
    assert np.isfinite(y).all()


def test_a_nan_reaches_the_queries_that_see_it() -> None:
    q, k, v, _ = sample(6, 6, np.float32)
    k[0, 0, 3] = np.nan
    y, _ = attention_forward(q, k, v, 0.5, True)
    np.testing.assert_array_equal(np.isnan(y[0, 0]).all(-1), [False, False, False, True, True, True])
    assert not np.isnan(y[1]).any()


@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 2), (0, 3), (2, 0)])
def test_leading_dims(lead: tuple[int, ...]) -> None:
    q, k, v, g = sample(5, 4, np.float32, lead)
    y, p = attention_forward.fused(q, k, v, 0.5, True)
    assert y.shape == g.shape
    assert p.shape == (*lead, 5, 4)
    for gradient, array in zip(attention_backward.fused(g, q, k, v, p, y, 0.5, True), (q, k, v), strict=True):
        assert gradient.shape == array.shape


@pytest.mark.parametrize("plain", [True, False])
def test_shapes_that_do_not_fit(plain: bool) -> None:
    forward = attention_forward.plain if plain else attention_forward.fused
    q, k, v, _ = sample(5, 4, np.float32)
    with pytest.raises(ShapeError) as caught:
        forward(q, k, v[..., :3, :], 0.5, True)
    assert str(caught.value) == (
        "attention: wanted q of shape (..., t, d), k of shape (..., s, d) and v of shape (..., s, e), the "
        "leading dims the same, got (2, 3, 5, 4), (2, 3, 4, 4) and (2, 3, 3, 6)."
    )
    with pytest.raises(ShapeError, match=r"the gradient has shape \(2, 3, 4, 6\), and the output"):
        attention_backward.fused(np.ones((2, 3, 4, 6), np.float32), q, k, v, None, None, 0.5, True)
