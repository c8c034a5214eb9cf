"""Cross-entropy: fused code against scipy in double precision, labels, and the edges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.kernels.row.loss import (
    cross_entropy_and_slope,
    cross_entropy_backward,
    cross_entropy_forward,
)
from tolerance import assert_close, tolerance, widened

DTYPES = [np.float32, np.float64]
IGNORE = -100


def sample(rows: int, classes: int, dtype: type[np.floating]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    logits = (4 * rng.standard_normal((rows, classes))).astype(dtype)
    target = rng.integers(0, classes, rows)
    if rows > 2:
        target[2] = IGNORE
    return logits, target, rng.standard_normal(rows).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "classes"), [(5, 7), (64, 256), (3, 4000), (4, 1), (1, 2)])
def test_forward_is_the_negative_log_likelihood(rows: int, classes: int, dtype: type[np.floating]) -> None:
    logits, target, _ = sample(rows, classes, dtype)
    loss, normaliser = cross_entropy_forward.fused(logits, target, IGNORE)
    assert loss.dtype == normaliser.dtype == dtype
    wide = log_softmax(logits.astype(np.float64), axis=1)
    expected = [0.0 if t == IGNORE else -wide[i, t] for i, t in enumerate(target)]
    assert_close(loss, np.array(expected), classes)
    assert_close(normaliser, logsumexp(logits.astype(np.float64), axis=1), classes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "classes"), [(5, 7), (64, 256), (3, 4000), (4, 1)])
@pytest.mark.parametrize("saved", [True, False])
def test_backward_is_softmax_minus_the_label(
    saved: bool, rows: int, classes: int, dtype: type[np.floating]
) -> None:
    logits, target, g = sample(rows, classes, dtype)
    normaliser = cross_entropy_forward.fused(logits, target, IGNORE)[1] if saved else None
    expected = np.exp(log_softmax(logits.astype(np.float64), axis=1))
    for i, t in enumerate(target):
        expected[i] = 0.0 if t == IGNORE else (expected[i] - (np.arange(classes) == t)) * g[i]
    fused = cross_entropy_backward.fused(g, logits, target, normaliser, IGNORE)
    assert fused.dtype == dtype
    assert_close(fused, expected, classes)
    wide_g, wide_logits = widened(g, logits)
    assert_close(cross_entropy_backward.plain(wide_g, wide_logits, target, None, IGNORE), expected, classes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "classes"), [(5, 7), (64, 256), (3, 4000), (4, 1), (0, 3)])
def test_both_at_once_are_forward_and_backward(rows: int, classes: int, dtype: type[np.floating]) -> None:
    logits, target, _ = sample(rows, classes, dtype)
    loss, slope = cross_entropy_and_slope.fused(logits, target, IGNORE, 0.25)
    assert loss.dtype == slope.dtype == dtype
    (wide,) = widened(logits)
    expected, expected_slope = cross_entropy_and_slope.plain(wide, target, IGNORE, 0.25)
    assert_close(loss, expected, classes)
    assert_close(slope, expected_slope, classes)
    again = cross_entropy_backward.plain(np.full(rows, 0.25), wide, target, None, IGNORE)
    assert_close(slope, again, classes)


def test_both_at_once_on_huge_and_excluded_logits() -> None:
    logits = np.array([[1e30, 0.0, -np.inf], [-1e38, 1e38, 0.0], [np.nan, 1.0, 2.0]], np.float32)
    loss, slope = cross_entropy_and_slope.fused(logits, np.array([0, 1, -100]), IGNORE, 1.0)
    np.testing.assert_array_equal(loss, np.zeros(3))
    np.testing.assert_array_equal(slope, np.zeros((3, 3)))
    assert np.isnan(cross_entropy_and_slope.fused(logits, np.array([0, 1, 2]), IGNORE, 1.0)[1][2]).all()


def test_a_gradient_that_is_broadcast_from_one_number() -> None:
    logits, target, _ = sample(6, 5, np.float32)
    g = np.broadcast_to(np.float32(0.25), 6)
    ours = cross_entropy_backward(g, logits, target, None, IGNORE)
    np.testing.assert_array_equal(ours, cross_entropy_backward(g.copy(), logits, target, None, IGNORE))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.int64])
def test_labels_of_any_integer_dtype(dtype: type[np.integer]) -> None:
    logits, _, _ = sample(4, 3, np.float32)
    target = np.array([0, 2, 1, 0])
    expected, _ = cross_entropy_forward(logits, target, IGNORE)
    np.testing.assert_array_equal(cross_entropy_forward(logits, target.astype(dtype), IGNORE)[0], expected)


def test_a_label_that_is_a_class_may_be_ignored() -> None:
    logits, _, g = sample(4, 3, np.float32)
    target = np.array([0, 1, 0, 2])
    loss, _ = cross_entropy_forward(logits, target, 0)
    dlogits = cross_entropy_backward(g, logits, target, None, 0)
    np.testing.assert_array_equal(loss[[0, 2]], 0.0)
    np.testing.assert_array_equal(dlogits[[0, 2]], 0.0)
    assert (loss[[1, 3]] > 0.0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_logits(dtype: type[np.floating]) -> None:
    logits = np.array([[1e30, 0.0], [1e30, 1e30], [5000.0, 5000.0 - 3.0], [-1e30, -1e30]], dtype)
    target = np.array([0, 1, 1, 0])
    loss, _ = cross_entropy_forward.fused(logits, target, IGNORE)
    expected = [0.0, np.log(2.0), 3.0 + np.log1p(np.exp(-3.0)), np.log(2.0)]
    np.testing.assert_allclose(loss, expected, rtol=tolerance(dtype, 2))
    with plain_formulas():
        np.testing.assert_allclose(cross_entropy_forward(logits, target, IGNORE)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_excluded_class_has_no_probability(dtype: type[np.floating]) -> None:
    logits = np.array([[0.0, -np.inf, np.log(3.0)]], dtype)
    loss, normaliser = cross_entropy_forward.fused(logits, np.array([2]), IGNORE)
    np.testing.assert_allclose(loss, np.log(4 / 3), rtol=1e-6)
    gradient = cross_entropy_backward.fused(np.ones(1, dtype), logits, np.array([2]), normaliser, IGNORE)
    np.testing.assert_allclose(gradient, [[0.25, 0.0, -0.25]], rtol=1e-6)
    assert cross_entropy_forward.fused(logits, np.array([1]), IGNORE)[0] == np.inf


def test_a_nan_spoils_its_row_only() -> None:
    logits, target, g = sample(5, 9, np.float32)
    clean, _ = cross_entropy_forward(logits, target, IGNORE)
    logits[1, 4] = np.nan
    loss, normaliser = cross_entropy_forward(logits, target, IGNORE)
    assert np.isnan(loss[1])
    np.testing.assert_array_equal(np.delete(loss, 1), np.delete(clean, 1))
    gradient = cross_entropy_backward(g, logits, target, normaliser, IGNORE)
    np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), [False, True, False, False, False])


def test_a_nan_in_an_ignored_row_does_not_count() -> None:
    logits, target, g = sample(5, 9, np.float32)
    logits[2] = np.nan
    loss, normaliser = cross_entropy_forward(logits, target, IGNORE)
    assert loss[2] == 0.0
    np.testing.assert_array_equal(cross_entropy_backward(g, logits, target, normaliser, IGNORE)[2], 0.0)


@pytest.mark.parametrize("plain", [True, False])
def test_no_rows(plain: bool) -> None:
    logits, target = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    for kernel in (cross_entropy_forward.plain if plain else cross_entropy_forward.fused,):
        loss, normaliser = kernel(logits, target, IGNORE)
    assert loss.shape == normaliser.shape == (0,)
    assert cross_entropy_backward(loss, logits, target, normaliser, IGNORE).shape == (0, 4)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("label", [3, -1, 10**12])
def test_a_label_out_of_range(label: int, plain: bool) -> None:
    kernel = cross_entropy_forward.plain if plain else cross_entropy_forward.fused
    with pytest.raises(IndexRangeError) as caught:
        kernel(np.zeros((2, 3), np.float32), np.array([0, label]), IGNORE)
    assert str(caught.value) == (
        f"cross_entropy: target[1] is {label}, and the logits have 3 classes: wanted 0 to 2, or "
        "ignore_index=-100."
    )


@pytest.mark.parametrize("plain", [True, False])
def test_labels_that_are_no_integers(plain: bool) -> None:
    kernel = cross_entropy_forward.plain if plain else cross_entropy_forward
    with pytest.raises(DTypeError) as caught:
        kernel(np.zeros((2, 3), np.float32), np.array([0.0, 1.0]), IGNORE)
    assert str(caught.value) == (
        "cross_entropy: wanted integers as labels, got float64. Convert them with astype(numpy.int64)."
    )


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(("logits", "target"), [((2, 3), (3,)), ((2, 3, 4), (2, 3)), ((3,), (3,))])
def test_shapes_that_do_not_fit(logits: tuple[int, ...], target: tuple[int, ...], plain: bool) -> None:
    kernel = cross_entropy_forward.plain if plain else cross_entropy_forward.fused
    with pytest.raises(ShapeError) as caught:
        kernel(np.zeros(logits, np.float32), np.zeros(target, np.int64), IGNORE)
    assert str(caught.value) == (
        "cross_entropy: wanted logits of shape (rows, classes) and a target of shape (rows,), got "
        f"{logits} and {target}. Reshape the logits to two dims and flatten the target."
    )
