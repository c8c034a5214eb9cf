"""Attention: against a loop over queries in double precision, with masks, dropout and shared keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.kernels.attention import attention_block_cpu, attention_task_cpu
from shardwise.backend.kernels.attention.attention import Dropped, attention_backward, attention_forward
from shardwise.backend.random import bernoulli
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
LENGTHS = [(1, 1), (5, 5), (40, 40), (7, 50), (50, 7), (1, 9), (9, 1)]
DROPPED = Dropped(0.3, 11, 2**40 + 3, 5)
MASKS = [(40, 40), (40,), (1, 40), (40, 1), (2, 1, 1, 40), (3, 40, 40), (2, 3, 1, 40), ()]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that short sequences have several, which begin and end anywhere."""
    for name, size in (("_QUERIES", 9), ("_CAUSAL_QUERIES", 7), ("_CELLS", 64), ("_ALL_CELLS", 128)):
        assert hasattr(attention_task_cpu, name)
        monkeypatch.setattr(attention_task_cpu, name, size)


def sample(
    t: int,
    s: int,
    dtype: type[np.floating],
    lead: tuple[int, ...] = (2, 3),
    keys: tuple[int, ...] | None = None,
) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    keys = lead if keys is None else keys
    shapes = ((*lead, t, 4), (*keys, s, 4), (*keys, s, 6), (*lead, t, 6))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def masked(
    kind: str, shape: tuple[int, ...], dtype: type[np.floating]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """A bias with some -inf, or a mask that hides some keys, of this shape."""
    rng = np.random.default_rng(10)
    seen = np.asarray(rng.random(shape) < 0.7)
    if kind == "mask":
        return None, seen
    return np.asarray(np.where(seen, rng.standard_normal(shape), -np.inf).astype(dtype)), None


def one_query_at_a_time(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | None,
    mask: np.ndarray | None,
    scale: float,
    causal: bool,
    dropped: Dropped | None = None,
) -> np.ndarray:
    """Return the averages, all in double precision."""
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    t, s = q.shape[-2], k.shape[-2]
    q, k, v = (np.broadcast_to(x, (*lead, *x.shape[-2:])).astype(np.float64) for x in (q, k, v))
    added = np.zeros((*lead, t, s)) + (0.0 if bias is None else bias)
    seen = np.broadcast_to(True if mask is None else mask, added.shape) & (added > -np.inf)
    kept = np.ones(added.shape)
    if dropped is not None:
        kept = np.where(bernoulli(added.shape, *dropped), 0.0, 1.0 / (1.0 - dropped.p))
    y = np.zeros((*lead, t, v.shape[-1]))
    for place in np.ndindex(*lead, t):
        *head, i = place
        visible = seen[place] & ((np.arange(s) <= i) | (not causal))
        if visible.any():
            scores = (k[tuple(head)] @ q[place] * scale + added[place])[visible]
            weights = np.exp(scores - scores.max())
            weights *= kept[place][visible] / weights.sum()
            y[place] = weights @ v[tuple(head)][visible]
    return y


def check(given: list[np.ndarray], *options: Any) -> None:
    """Hold averages and gradients, fused and plain, against the loop and the formula in double precision."""
    q, k, v, g = given
    expected = one_query_at_a_time(q, k, v, *options)
    length = q.shape[-2] + k.shape[-2]
    wide = attention_forward.plain(*widened(q, k, v, *options))
    exact = attention_backward.plain(*widened(g, q, k, v, *options[:2], *wide, *options[2:]))
    for forward, backward in (
        (attention_forward.fused, attention_backward.fused),
        (attention_forward.plain, attention_backward.plain),
    ):
        y, peak, share = forward(q, k, v, *options)
        assert y.dtype == peak.dtype == share.dtype == q.dtype
        assert peak.shape == share.shape == y.shape[:-1]
        assert_close(y, expected, k.shape[-2], scale=1.0)
        gradients = backward(g, q, k, v, *options[:2], y, peak, share, *options[2:])
        for ours, reference, x in zip(gradients, exact, (q, k, v, options[0]), strict=True):
            if x is None:
                assert ours is reference is None
                continue
            assert ours.dtype == q.dtype
            assert_close(summed(ours, x.shape), summed(reference, x.shape), length, scale=2.0)


def summed(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A gradient of what was broadcast, summed to the shape of it."""
    more = tuple(range(gradient.ndim - len(shape)))
    ones = tuple(i + len(more) for i, n in enumerate(shape) if n == 1)
    return gradient.sum((*more, *ones), keepdims=True).reshape(shape) if more or ones else gradient


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("t", "s"), LENGTHS)
@pytest.mark.usefixtures("small_blocks")
def test_lengths(t: int, s: int, causal: bool, dtype: type[np.floating]) -> None:
    check(sample(t, s, dtype), None, None, 0.7, causal)


@pytest.mark.parametrize(("t", "s"), [(300, 300), (40, 4000), (1100, 30), (600, 600)])
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_as_they_are(t: int, s: int, causal: bool) -> None:
    check(sample(t, s, np.float32, (2,)), None, None, 0.7, causal)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.usefixtures("small_blocks")
def test_masks_broadcast(kind: str, shape: tuple[int, ...], causal: bool) -> None:
    check(sample(40, 40, np.float32), *masked(kind, shape, np.float32), 0.7, causal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["none", "mask", "bias"])
@pytest.mark.usefixtures("small_blocks")
def test_dropout(kind: str, causal: bool, dtype: type[np.floating]) -> None:
    options = (None, None) if kind == "none" else masked(kind, (21, 30), dtype)
    check(sample(21, 30, dtype), *options, 0.7, causal, DROPPED)


@pytest.mark.usefixtures("small_blocks")
def test_everything_dropped() -> None:
    q, k, v, g = sample(21, 30, np.float32)
    options = None, None
    for version in ("fused", "plain"):
        y, *statistics = getattr(attention_forward, version)(
            q, k, v, *options, 0.5, False, Dropped(1.0, 0, 0, 0)
        )
        assert not y.any()
        backward = getattr(attention_backward, version)
        gradients = backward(g, q, k, v, *options, y, *statistics, 0.5, False, Dropped(1.0, 0, 0, 0))
        assert not any(x.any() for x in gradients[:3])


@pytest.mark.parametrize("heads", [(2, 3), (3,), (4, 1, 5), (2, 1, 3, 2)])
@pytest.mark.parametrize("option", ["none", "causal", "mask", "dropout"])
@pytest.mark.usefixtures("small_blocks")
def test_heads_that_share_keys(option: str, heads: tuple[int, ...]) -> None:
    bias, mask = masked("mask", (*heads, 12, 19), np.float32) if option == "mask" else (None, None)
    dropped = DROPPED if option == "dropout" else None
    given = sample(12, 19, np.float32, heads, (*heads[:-1], 1))
    check(given, bias, mask, 0.7, option == "causal", dropped)
    q, k, v, g = given
    y, *statistics = attention_forward.fused(q, k, v, bias, mask, 0.7, option == "causal", dropped)
    _, dk, dv, _ = attention_backward.fused(
        g, q, k, v, bias, mask, y, *statistics, 0.7, option == "causal", dropped
    )
    assert (dk.shape, dv.shape) == (k.shape, v.shape)


@pytest.mark.parametrize(
    ("q", "k", "v"), [((2, 1), (5,), ()), ((), (2, 3), (3,)), ((1, 3), (2, 1), (2, 1)), ((3,), (1,), (3,))]
)
@pytest.mark.usefixtures("small_blocks")
def test_leading_dims_broadcast(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    queries, *_ = sample(12, 9, np.float32, q)
    _, keys, *_ = sample(12, 9, np.float32, k)
    _, _, values, _ = sample(12, 9, np.float32, v)
    _, _, _, g = sample(12, 9, np.float32, np.broadcast_shapes(q, k, v))
    for causal in (False, True):
        check([queries, keys, values, g], None, None, 0.7, causal)


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-3, 30.0])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.usefixtures("small_blocks")
def test_any_scale(causal: bool, scale: float) -> None:
    given = sample(16, 16, np.float64)
    check(given, None, None, scale, causal)
    check(given, *masked("bias", (16, 16), np.float64), scale, causal)


@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 2), (0, 3), (2, 0)])
@pytest.mark.parametrize(("t", "s"), [(5, 4), (0, 4), (5, 0), (0, 0)])
def test_empty(t: int, s: int, lead: tuple[int, ...]) -> None:
    for causal in (True, False):
        check(sample(t, s, np.float32, lead), None, None, 0.5, causal)
        check(sample(t, s, np.float32, lead), *masked("bias", (t, s), np.float32), 0.5, causal)


@pytest.mark.usefixtures("small_blocks")
def test_queries_without_keys_get_zeros_and_no_gradient() -> None:
    q, k, v, g = sample(16, 20, np.float32)
    mask = np.ones((16, 20), bool)
    mask[3], mask[9, :19] = False, False
    bias = np.where(mask, 0.5, -np.inf).astype(np.float32)
    for options in ((None, mask), (bias, None)):
        check([q, k, v, g], *options, 0.5, False)
        for version in ("fused", "plain"):
            forward, backward = (getattr(x, version) for x in (attention_forward, attention_backward))
            y, *statistics = forward(q, k, v, *options, 0.5, False)
            assert not y[..., 3, :].any()
            np.testing.assert_allclose(y[..., 9, :], v[..., 19, :], rtol=1e-6)
            dq, *_ = backward(g, q, k, v, *options, y, *statistics, 0.5, False)
            assert not dq[..., 3, :].any()


def test_only_what_is_needed() -> None:
    q, k, v, g = sample(5, 6, np.float32)
    bias = np.zeros((5, 6), np.float32)
    for version in ("fused", "plain"):
        forward, backward = (getattr(x, version) for x in (attention_forward, attention_backward))
        results = forward(q, k, v, bias, None, 0.5, True)
        every = backward(g, q, k, v, bias, None, *results, 0.5, True)
        for i in range(4):
            need = tuple(j == i for j in range(4))
            some = backward(g, q, k, v, bias, None, *results, 0.5, True, None, need)
            assert [x is not None for x in some] == list(need)
            np.testing.assert_allclose(some[i], every[i], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("plain", [True, False])
def test_what_does_not_fit(plain: bool) -> None:
    forward = attention_forward.plain if plain else attention_forward.fused
    q, k, v, _ = sample(5, 4, np.float32)
    wanted = (
        "attention: wanted q of shape (..., t, d), k of shape (..., s, d) and v of shape (..., s, e), with "
        "leading dims that broadcast, got "
    )
    for bad, shapes in (
        ((q, k, v[..., :3, :]), "(2, 3, 5, 4), (2, 3, 4, 4) and (2, 3, 3, 6)."),
        ((q[:, :2], k, v), "(2, 2, 5, 4), (2, 3, 4, 4) and (2, 3, 4, 6)."),
        ((q[0, 0, 0], k, v), "(4,), (2, 3, 4, 4) and (2, 3, 4, 6)."),
    ):
        with pytest.raises(ShapeError) as caught:
            forward(*bad, None, None, 0.5, True)
        assert str(caught.value) == wanted + shapes
    with pytest.raises(ShapeError) as caught:
        forward(q, k, v, None, np.ones((5, 5), bool), 0.5, True)
    assert str(caught.value) == (
        "attention: the mask has shape (5, 5), which does not broadcast to that of the scores, (..., t, s) = "
        "(2, 3, 5, 4)."
    )
    with pytest.raises(ArgumentError, match=r"wanted an offset of 0 or more, got -1\."):
        forward(q, k, v, None, None, 0.5, True, Dropped(0.5, 1, 2, -1))
    if not plain:
        y, peak, share = forward(q, k, v, None, None, 0.5, True)
        with pytest.raises(ShapeError, match=r"the gradient has shape \(2, 3, 4, 6\), and the output"):
            attention_backward.fused(
                np.ones((2, 3, 4, 6), np.float32), q, k, v, None, None, y, peak, share, 0.5, True
            )


def test_exponentials_are_exact_to_two_units() -> None:
    x = np.linspace(-126.0, 0.0, 4001, dtype=np.float32)
    y, top, *rest = x.reshape(1, -1, 1).copy(), *np.zeros((3, 1, 1), np.float32)
    attention_block_cpu.weigh_(y, top, *rest, 1.0, x.size, True)  # the largest is 0
    error = np.abs(y[0, :, 0].astype(np.float64) / 2.0 ** x.astype(np.float64) - 1.0).max()
    assert error <= tolerance(np.float32) / 4
    for value, expected in ((0.0, 1.0), (-200.0, 0.0), (-np.inf, 0.0), (np.nan, np.nan)):
        one = np.array([[[value], [0.0]]], np.float32)
        attention_block_cpu.weigh_(one, *np.zeros((3, 1, 1), np.float32), 1.0, 2, True)
        np.testing.assert_equal(float(one[0, 0, 0]), expected)
