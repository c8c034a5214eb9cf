"""Cross-entropy with weights, smoothed labels and probabilities: fused code against SciPy, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from shardwise.backend.kernels.row.weighted_loss import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from tolerance import assert_close

DTYPES = [np.float32, np.float64]
SIZES = [(5, 7), (40, 256), (3, 4000), (4, 1), (1, 2)]
IGNORE = -100

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_size = pytest.mark.parametrize(("rows", "classes"), SIZES)
each_smoothing = pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
with_weights = pytest.mark.parametrize("weighted", [False, True])


def sample(rows: int, classes: int, dtype: type[np.floating], weighted: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(rows)
    logits = (4 * rng.standard_normal((rows, classes))).astype(dtype)
    weight = rng.random(classes).astype(dtype) if weighted else None
    target = rng.integers(0, classes, rows)
    if rows > 2:
        target[2] = IGNORE
    return logits, target, weight, rng.standard_normal(rows).astype(dtype)


def shares_of(target: np.ndarray, classes: int, smoothing: float) -> np.ndarray:
    """What each class counts in each row: nothing in rows that are ignored."""
    one_hot = (target[:, None] == np.arange(classes)) * (1.0 - smoothing) + smoothing / classes
    return np.where(target[:, None] == IGNORE, 0.0, one_hot)


@each_dtype
@each_size
@each_smoothing
@with_weights
def test_integer_classes(
    weighted: bool, smoothing: float, rows: int, classes: int, dtype: type[np.floating]
) -> None:
    logits, target, weight, g = sample(rows, classes, dtype, weighted)
    wide, one = logits.astype(np.float64), 1.0 if weight is None else weight.astype(np.float64)
    shares = shares_of(target, classes, smoothing) * one
    expected = -(shares * log_softmax(wide, axis=1)).sum(axis=1)
    slope = (np.exp(log_softmax(wide, axis=1)) * shares.sum(axis=1, keepdims=True) - shares) * g[:, None]
    for version in ("fused", "plain"):
        loss, normaliser = getattr(weighted_cross_entropy_forward, version)(
            logits, target, weight, IGNORE, smoothing
        )
        assert loss.dtype == normaliser.dtype == dtype
        assert_close(loss, expected, classes)
        assert_close(normaliser, logsumexp(wide, axis=1), classes)
        for saved in (normaliser, None):
            dlogits = getattr(weighted_cross_entropy_backward, version)(
                logits, g, target, weight, saved, IGNORE, smoothing
            )
            assert dlogits.dtype == dtype
            assert_close(dlogits, slope, classes, scale=float(np.abs(g).max()))


@each_dtype
@each_size
@each_smoothing
@with_weights
def test_probabilities(
    weighted: bool, smoothing: float, rows: int, classes: int, dtype: type[np.floating]
) -> None:
    logits, _, weight, g = sample(rows, classes, dtype, weighted)
    target = np.random.default_rng(1).dirichlet(np.ones(classes), rows).astype(dtype)
    wide, one = logits.astype(np.float64), 1.0 if weight is None else weight.astype(np.float64)
    shares = (target.astype(np.float64) * (1.0 - smoothing) + smoothing / classes) * one
    expected = -(shares * log_softmax(wide, axis=1)).sum(axis=1)
    slope = (np.exp(log_softmax(wide, axis=1)) * shares.sum(axis=1, keepdims=True) - shares) * g[:, None]
    for version in ("fused", "plain"):
        loss, normaliser = getattr(soft_cross_entropy_forward, version)(logits, target, weight, smoothing)
        assert_close(loss, expected, classes)
        for saved in (normaliser, None):
            dlogits = getattr(soft_cross_entropy_backward, version)(
                logits, g, target, weight, saved, smoothing
            )
            assert dlogits.dtype == dtype
            assert_close(dlogits, slope, classes, scale=float(np.abs(g).max()))


@each_dtype
def test_huge_and_infinite_logits(dtype: type[np.floating]) -> None:
    logits = np.array([[1e30, 0.0], [5000.0, 4997.0], [-np.inf, 0.0]], dtype)
    target = np.array([0, 1, 1])
    loss, normaliser = weighted_cross_entropy_forward.fused(logits, target, None, IGNORE, 0.0)
    np.testing.assert_allclose(loss, [0.0, 3.0 + np.log1p(np.exp(-3.0)), 0.0], rtol=1e-6)
    slope = weighted_cross_entropy_backward.fused(
        logits, np.ones(3, dtype), target, None, normaliser, IGNORE, 0.0
    )
    np.testing.assert_allclose(slope[[0, 2]], 0.0)
    smooth, _ = weighted_cross_entropy_forward.fused(logits, target, None, IGNORE, 0.5)
    assert smooth[2] == np.inf


def test_a_nan_spoils_its_row_only() -> None:
    logits, target, weight, g = sample(6, 9, np.float32, True)
    logits[1, 4] = logits[2, 0] = np.nan  # the second is ignored
    loss, normaliser = weighted_cross_entropy_forward.fused(logits, target, weight, IGNORE, 0.1)
    np.testing.assert_array_equal(np.isnan(loss), [False, True, False, False, False, False])
    slope = weighted_cross_entropy_backward.fused(logits, g, target, weight, normaliser, IGNORE, 0.1)
    np.testing.assert_array_equal(np.isnan(slope).any(axis=1), np.isnan(loss))
    np.testing.assert_array_equal(slope[2], 0.0)


def test_no_rows_and_views() -> None:
    empty, labels = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    loss, normaliser = weighted_cross_entropy_forward.fused(empty, labels, None, IGNORE, 0.1)
    assert loss.shape == normaliser.shape == (0,)
    assert soft_cross_entropy_forward.fused(empty, empty, None, 0.1)[0].shape == (0,)
    logits, target, _, _ = sample(8, 6, np.float32, False)
    g = np.broadcast_to(np.float32(0.125), 8)
    turned = np.asfortranarray(logits)
    for label in (target.astype(np.int8), target[::-1][::-1]):
        label = np.where(target == IGNORE, 1, label)
        loss, normaliser = weighted_cross_entropy_forward.fused(turned, label, None, IGNORE, 0.1)
        expected = weighted_cross_entropy_backward.fused(logits, g.copy(), label, None, None, IGNORE, 0.1)
        slope = weighted_cross_entropy_backward.fused(turned, g, label, None, normaliser, IGNORE, 0.1)
        np.testing.assert_array_equal(slope, expected)
