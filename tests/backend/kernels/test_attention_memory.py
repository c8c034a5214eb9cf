"""Attention in blocks: what it costs in memory, what views it takes, and numbers that are none."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from shardwise.backend.kernels.attention import attention_task_cpu
from shardwise.backend.kernels.attention.attention import Dropped, attention_backward, attention_forward
from tolerance import assert_close, widened


def sample(t: int, s: int, lead: tuple[int, ...] = (2, 3), d: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    shapes = ((*lead, t, d), (*lead, s, d), (*lead, s, d), (*lead, t, d))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def both(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, *options: object) -> list[np.ndarray]:
    y, peak, share = attention_forward.fused(q, k, v, None, None, *options)
    return [y, *attention_backward.fused(g, q, k, v, None, None, y, peak, share, *options)[:3]]


def test_memory_grows_with_the_length_not_its_square() -> None:
    both(*sample(8, 8), 0.5, True, Dropped(0.5, 1, 2, 0))  # compiled before it is measured
    peaks = {}
    for length in (2048, 4096):
        given = sample(length, length, (1, 1))
        for options in ((0.5, True), (0.5, False), (0.5, False, Dropped(0.5, 1, 2, 0))):
            tracemalloc.start()
            both(*given, *options)
            peaks[length, options] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    rows = 2048 * 4 * 4  # bytes of one operand
    for (length, options), peak in peaks.items():
        assert peak < length * length * 4, (length, options, peak)
        if length == 4096:
            assert peak - peaks[2048, options] < 10 * rows, (options, peak)


@pytest.mark.parametrize("causal", [True, False])
def test_heads_of_one_projection_need_no_copy_of_the_whole(causal: bool) -> None:
    rng = np.random.default_rng(10)
    batch, t, heads, d = 2, 140, 3, 8
    joined = rng.standard_normal((batch, t, 3, heads, d)).astype(np.float32)
    q, k, v = joined.transpose(2, 0, 3, 1, 4)
    g = rng.standard_normal((batch, t, heads, d)).astype(np.float32).transpose(0, 2, 1, 3)
    y, *gradients = both(q, k, v, g, d**-0.5, causal)
    copies = [np.ascontiguousarray(x) for x in (q, k, v, g)]
    for ours, expected in zip((y, *gradients), both(*copies, d**-0.5, causal), strict=True):
        assert ours.swapaxes(-3, -2).flags.c_contiguous  # so heads are joined without a copy
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_heads_that_share_keys_are_joined_without_a_copy() -> None:
    q, *_ = sample(5, 7, (2, 3, 4))
    _, k, v, _ = sample(5, 7, (2, 3, 1))
    y, *_ = attention_forward.fused(q, k, v, None, None, 0.5, False)
    joined = np.moveaxis(y, -2, 1)
    assert y.shape == (2, 3, 4, 5, 4)
    assert joined.flags.c_contiguous


def test_operands_that_blas_cannot_take() -> None:
    q, k, v, g = sample(9, 9)
    wide = np.repeat(q, 2, axis=-1)[..., ::2]  # a last dim with gaps
    turned = np.ascontiguousarray(k.swapaxes(-1, -2)).swapaxes(-1, -2)
    shared = np.broadcast_to(v[:1, :1], v.shape)
    same = np.broadcast_to(g[:1], g.shape)
    backwards = [x[..., ::-1, :][..., ::-1, :] for x in (q, k)]
    expected = both(q, k, shared.copy(), same.copy(), 0.5, True)
    for queries, keys in ((wide, turned), backwards, (q[..., ::-1, ::-1][..., ::-1, ::-1], k)):
        for ours, reference in zip(both(queries, keys, shared, same, 0.5, True), expected, strict=True):
            np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6)
    memory = np.zeros(q.nbytes + 1, np.uint8)
    crooked = memory[1:].view(np.float32).reshape(q.shape)
    crooked[...] = q
    for ours, reference in zip(both(crooked, k, shared, same, 0.5, True), expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5, atol=1e-6)


def test_masks_of_any_layout() -> None:
    q, k, v, _ = sample(9, 11)
    rng = np.random.default_rng(1)
    mask = rng.random((2, 3, 9, 11)) < 0.6
    bias = rng.standard_normal((2, 3, 9, 11)).astype(np.float32)
    expected = attention_forward.fused(q, k, v, bias, mask, 0.5, False)[0]
    memory = np.zeros(bias.nbytes + 1, np.uint8)
    crooked = memory[1:].view(np.float32).reshape(bias.shape)
    crooked[...] = bias
    turned = np.asfortranarray(bias)
    for other in (crooked, turned, np.repeat(bias, 2, -1)[..., ::2], bias[..., ::-1].copy()[..., ::-1]):
        y, *_ = attention_forward.fused(q, k, v, other, np.asfortranarray(mask), 0.5, False)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_do_not_change_what_is_dropped(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sample(30, 33)
    options = 0.5, causal, Dropped(0.4, 3, 4, 7)
    whole = both(*given, *options)
    for name, size in (("_QUERIES", 7), ("_CAUSAL_QUERIES", 7), ("_CELLS", 35), ("_ALL_CELLS", 70)):
        monkeypatch.setattr(attention_task_cpu, name, size)
    for ours, expected in zip(both(*given, *options), whole, strict=True):
        assert_close(ours, expected.astype(np.float64), 63, scale=1.0)


def test_huge_scores_do_not_overflow() -> None:
    q, k, v, g = sample(50, 50)
    for factor in (1e3, 1e15):
        for causal in (True, False):
            y, dq, dk, dv = both(q * factor, k * factor, v, g, 1.0, causal)
            assert all(np.isfinite(x).all() for x in (y, dq, dk, dv))
            scores = np.where(
                np.tri(50, dtype=bool) | (not causal), widened(q)[0] @ k.swapaxes(-1, -2), -np.inf
            )
            second, first = np.sort(scores, -1)[..., -2:].transpose(3, 0, 1, 2)
            best = np.take_along_axis(v, np.argmax(scores, -1)[..., None], -2)
            clear = first - second > 1e-3
            np.testing.assert_allclose(y[clear], best[clear], rtol=1e-5, atol=1e-5)


def test_a_nan_reaches_the_queries_that_see_it() -> None:
    q, k, v, g = sample(6, 6)
    k[0, 0, 3] = np.nan
    y, *gradients = both(q, k, v, g, 0.5, True)
    np.testing.assert_array_equal(np.isnan(y[0, 0]).all(-1), [False, False, False, True, True, True])
    for x in (y, *gradients):
        assert not np.isnan(x[1]).any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_none_spread_as_in_the_formula(value: float) -> None:
    for at in range(3):
        given = sample(6, 7)
        given[at][0, 1, 2, 3] = value
        q, k, v, _ = given
        with np.errstate(invalid="ignore"):
            expected, *_ = attention_forward.plain(q, k, v, None, None, 0.5, False)
        y, *_ = attention_forward.fused(q, k, v, None, None, 0.5, False)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
