"""Losses of classes and of numbers against SciPy and closed forms, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special as scipy_special

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from tolerance import assert_near

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def reference_cross_entropy(logits: np.ndarray, target: np.ndarray, ignore: int) -> np.ndarray:
    axis = 0 if logits.ndim == 1 else 1
    log_p = np.moveaxis(scipy_special.log_softmax(logits.astype(np.float64), axis), axis, -1)
    kept = target != ignore
    picked = np.take_along_axis(log_p, np.where(kept, target, 0)[..., None], -1)[..., 0]
    return np.where(kept, -picked, 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6,), (4, 6), (4, 6, 3), (2, 6, 3, 2)])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy(shape: tuple[int, ...], ignore: int, dtype: type) -> None:
    logits = (RNG.standard_normal(shape) * 5).astype(dtype)
    target = np.asarray(RNG.integers(0, 6, shape[:1] + shape[2:] if len(shape) > 1 else ()))
    if target.ndim and target.size > 2:
        target.ravel()[:2] = ignore, 1
    rows = reference_cross_entropy(logits, target, ignore)
    counted = np.count_nonzero(target != ignore)
    for reduction, want in (("none", rows), ("sum", rows.sum()), ("mean", rows.sum() / max(counted, 1))):
        loss = nn.CrossEntropyLoss(ignore_index=ignore, reduction=reduction)(  # type: ignore[arg-type]
            sw.tensor(logits), sw.tensor(target)
        )
        if counted:
            assert_near(loss, want, max(target.size, 6))
        assert loss.dtype == dtype


def test_cross_entropy_gradient_is_softmax_minus_target() -> None:
    x = sw.tensor(RNG.standard_normal((5, 4)), requires_grad=True)
    target = np.array([0, 3, -100, 2, 2])
    F.cross_entropy(x, sw.tensor(target)).backward()
    want = scipy_special.softmax(x.data, 1)
    want[np.arange(5), np.where(target < 0, 0, target)] -= 1
    want[2] = 0
    assert_near(x.grad, want / 4, 4)


def test_cross_entropy_of_large_logits_and_of_nothing() -> None:
    logits = np.array([[1e4, 0.0], [0.0, 1e4], [-np.inf, 0.0]])
    rows = F.cross_entropy(sw.tensor(logits), sw.tensor([0, 0, 1]), reduction="none")
    assert rows.tolist() == [0.0, 1e4, 0.0]
    ignored = F.cross_entropy(sw.tensor(logits), sw.tensor([-100] * 3))
    assert np.isnan(ignored.item())
    none = F.cross_entropy(sw.zeros(0, 4), sw.zeros(0, dtype=np.int64), reduction="sum")
    assert none.item() == 0.0


def test_cross_entropy_refuses() -> None:
    logits = sw.ones(3, 4)
    assert message(ShapeError, lambda: F.cross_entropy(logits, sw.tensor([0, 1]))) == (
        "cross_entropy: input of shape (3, 4), which is (n, classes, ...), needs a target of shape (3,), "
        "got (2,)"
    )
    assert message(ShapeError, lambda: F.cross_entropy(sw.ones(2, 5, 4), sw.zeros(2, 5, dtype=np.int64))) == (
        "cross_entropy: input of shape (2, 5, 4), which is (n, classes, ...), needs a target of shape "
        "(2, 4), "
        "got (2, 5)"
    )
    assert message(ShapeError, lambda: F.cross_entropy(sw.ones(()), sw.tensor(0))) == (
        "cross_entropy: input needs a dim of classes, but its shape is ()"
    )
    assert message(ShapeError, lambda: F.cross_entropy(logits, sw.ones(3))) == (
        "cross_entropy: a floating target holds the probability of each class, so that its shape must be "
        "that of input, (3, 4); got (3,). If it holds classes, cast it with long()."
    )
    assert message(DTypeError, lambda: F.cross_entropy(logits, sw.ones(3) > 0)) == (
        "cross_entropy: the target must be integer classes, not bool; cast with long()"
    )
    assert message(IndexRangeError, lambda: F.cross_entropy(logits, sw.tensor([0, 4, 1]))) == (
        "cross_entropy: target[1] is 4, and the logits have 4 classes: wanted 0 to 3, or ignore_index=-100."
    )
    for call in (
        lambda: F.cross_entropy(logits, sw.tensor([0, 1, 2]), reduction="max"),  # type: ignore[arg-type]
        lambda: F.mse_loss(logits, logits, reduction="max"),  # type: ignore[arg-type]
    ):
        assert message(ArgumentError, call).endswith("reduction must be 'mean', 'sum' or 'none', got 'max'")


def test_mse_loss() -> None:
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    squares = (a - b) ** 2
    assert_near(nn.MSELoss()(sw.tensor(a), sw.tensor(b)), squares.mean(), 12)
    assert_near(nn.MSELoss("sum")(sw.tensor(a), sw.tensor(b)), squares.sum(), 12)
    assert_near(nn.MSELoss("none")(sw.tensor(a), sw.tensor(b)), squares)
    assert message(ShapeError, lambda: F.mse_loss(sw.ones(3), sw.ones(3, 1))) == (
        "mse_loss: input of shape (3,) and target of shape (3, 1) must agree; reshape or expand one"
    )


# ---- class weights, smoothing, probabilities


def brute_cross_entropy(
    logits: np.ndarray, target: np.ndarray, weight: np.ndarray | None, smoothing: float, ignore: int
) -> tuple[np.ndarray, np.ndarray]:
    """Losses and what each counts, by loops over rows and classes."""
    classes = logits.shape[1]
    weight = np.ones(classes) if weight is None else weight
    rows, counts = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = target[place]
        if label == ignore:
            continue
        z = logits[(place[0], slice(None), *place[1:])].astype(np.float64)
        log_p = z - z.max() - np.log(np.exp(z - z.max()).sum())
        shares = np.full(classes, smoothing / classes)
        shares[label] += 1 - smoothing
        rows[place] = -(shares * weight * log_p).sum()
        counts[place] = weight[label]
    return rows, counts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (2, 6, 3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_weights_and_smoothing(shape: tuple[int, ...], weighted: bool, smoothing: float, dtype: type) -> None:
    rng = np.random.default_rng(1)
    logits = (rng.standard_normal(shape) * 4).astype(dtype)
    target = rng.integers(0, 6, (shape[0], *shape[2:]))
    target.ravel()[:2] = -7, 5
    weight = rng.random(6).astype(dtype) if weighted else None
    rows, counts = brute_cross_entropy(logits, target, weight, smoothing, -7)
    t = None if weight is None else sw.tensor(weight)
    for reduction, want in (("none", rows), ("sum", rows.sum()), ("mean", rows.sum() / counts.sum())):
        layer = nn.CrossEntropyLoss(t, -7, reduction, smoothing)  # type: ignore[arg-type]
        loss = layer(sw.tensor(logits), sw.tensor(target))
        assert_near(loss, want, 20)
        assert loss.dtype == dtype
    if smoothing == 0.0:
        log_p = sw.tensor(scipy_special.log_softmax(logits, 1))
        assert_near(nn.NLLLoss(t, -7)(log_p, sw.tensor(target)), rows.sum() / counts.sum(), 20)
        assert_near(nn.NLLLoss(t, -7, "none")(log_p, sw.tensor(target)), rows, 20)


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 6, 3, 2)])
def test_probabilities_as_target(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    logits, p, weight = rng.standard_normal(shape), rng.random(shape), rng.random(6)
    axis = 0 if len(shape) == 1 else 1
    wide = weight.reshape((6,) if axis == 0 else (1, 6, *(1,) * (len(shape) - 2)))
    shares = 0.8 * p + 0.2 / 6
    rows = -(shares * wide * scipy_special.log_softmax(logits, axis)).sum(axis)
    call = lambda reduction: F.cross_entropy(  # noqa: E731
        sw.tensor(logits), sw.tensor(p), sw.tensor(weight), reduction=reduction, label_smoothing=0.2
    )
    assert_near(call("none"), rows)
    assert_near(call("sum"), rows.sum(), 20)
    assert_near(call("mean"), rows.mean(), 20)


def test_one_hot_probabilities_are_classes() -> None:
    logits = RNG.standard_normal((5, 4))
    target = np.array([0, 3, 1, 1, 2])
    soft = F.cross_entropy(sw.tensor(logits), sw.tensor(np.eye(4)[target]), label_smoothing=0.1)
    assert_near(soft, F.cross_entropy(sw.tensor(logits), sw.tensor(target), label_smoothing=0.1).item())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nothing_that_counts(weighted: bool, smoothing: float) -> None:
    weight = sw.ones(4) if weighted else None
    for n in (0, 3):
        x = sw.ones(n, 4, requires_grad=True)
        target = sw.full((n,), -100)
        loss = F.cross_entropy(x, target, weight, label_smoothing=smoothing)
        assert np.isnan(loss.item())
        loss.backward()
        np.testing.assert_array_equal(x.grad.data, np.zeros((n, 4)))
        assert F.cross_entropy(x, target, weight, reduction="sum", label_smoothing=smoothing).item() == 0.0
        assert np.isnan(F.nll_loss(x, target, weight).item())
    assert np.isnan(F.cross_entropy(sw.ones(0, 4), sw.ones(0, 4)).item())


def test_labels_of_every_integer_dtype() -> None:
    logits = RNG.standard_normal((3, 4))
    want = reference_cross_entropy(logits, np.array([1, 2, 0]), -100)
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint64):
        target = sw.tensor(np.array([1, 2, 0], dtype))
        assert_near(F.cross_entropy(sw.tensor(logits), target, reduction="none"), want)
        assert_near(F.cross_entropy(sw.tensor(logits), target), want.mean())
        assert_near(F.cross_entropy(sw.tensor(logits), target, sw.ones(4, dtype=np.float64)), want.mean())


def test_wrong_classes_are_named_with_their_place() -> None:
    rest = "and the logits have 4 classes: wanted 0 to 3, or ignore_index=-100."
    target = sw.tensor([[0, 1, 2], [3, -1, 0]])
    for options in ({}, {"label_smoothing": 0.1}, {"weight": sw.ones(4)}):
        assert (
            message(
                IndexRangeError,
                lambda options=options: F.cross_entropy(sw.ones(2, 4, 3), target, **options),  # type: ignore[arg-type]
            )
            == f"cross_entropy: target[1, 1] is -1, {rest}"
        )
    assert message(IndexRangeError, lambda: F.nll_loss(sw.ones(2, 4, 3), target)) == (
        f"nll_loss: target[1, 1] is -1, {rest}"
    )
    assert message(IndexRangeError, lambda: F.cross_entropy(sw.ones(4), sw.tensor(9))) == (
        f"cross_entropy: target is 9, {rest}"
    )


def test_class_weights_refused() -> None:
    x, target = sw.ones(3, 4), sw.tensor([0, 1, 2])
    assert message(ShapeError, lambda: F.cross_entropy(x, target, sw.ones(3))) == (
        "cross_entropy: weight must have shape (4,), one element per class of input (3, 4); got (3,)"
    )
    assert message(ArgumentError, lambda: F.nll_loss(x, target, sw.ones(4, requires_grad=True))) == (
        "nll_loss: weight is a constant and gets no gradient; pass weight.detach()"
    )
    assert "input float32, weight float64" in message(
        DTypeError, lambda: F.cross_entropy(x, target, sw.ones(4, dtype=np.float64))
    )
    assert message(ArgumentError, lambda: F.cross_entropy(x, target, label_smoothing=1.5)) == (
        "cross_entropy: label_smoothing must be from 0 to 1, got 1.5"
    )
    assert message(ArgumentError, lambda: F.cross_entropy(x, x, ignore_index=1)) == (
        "cross_entropy: ignore_index is for integer targets, not for probabilities; got 1"
    )
    assert message(ArgumentError, lambda: nn.CrossEntropyLoss(reduction="max")) == (  # type: ignore[arg-type]
        "CrossEntropyLoss: reduction must be 'mean', 'sum' or 'none', got 'max'"
    )


def test_weights_of_a_layer_are_buffers() -> None:
    layer = nn.CrossEntropyLoss(sw.tensor([1.0, 2.0]))
    assert list(layer.state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=sw.ones(2)).state_dict()) == ["pos_weight"]
    assert list(nn.CrossEntropyLoss().state_dict()) == []
    assert layer.double()(sw.zeros(1, 2, dtype=np.float64), sw.tensor([1])).dtype == np.float64


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_cross_entropy_under_any_weighing_of_its_rows(dtype: type[np.floating]) -> None:
    """The forward has made the gradient of a mean; all others are multiples of it."""
    logits, target = RNG.standard_normal((7, 5)).astype(dtype), np.array([0, 4, 2, 1, -100, 3, 3])
    probability = scipy_special.softmax(logits.astype(np.float64), axis=1)
    slope = (probability - (np.arange(5) == target[:, None])) * (target != -100)[:, None]
    weights = RNG.standard_normal(7).astype(dtype)
    for reduction, g, rows in (
        ("mean", 1.0, np.full(7, 1 / 6)),
        ("mean", 3.0, np.full(7, 0.5)),
        ("sum", 1.0, np.ones(7)),
        ("sum", 1 / 7, np.full(7, 1 / 7)),
        ("none", weights, weights),
    ):
        x = sw.tensor(logits, requires_grad=True)
        loss = F.cross_entropy(x, sw.tensor(target), reduction=reduction)
        upstream = sw.tensor(np.asarray(g, dtype))
        for _ in range(2):  # the second backward finds what the first has left
            x.grad = None
            loss.backward(upstream, retain_graph=True)
            assert_near(x.grad, slope * np.asarray(rows, np.float64)[:, None])
        assert x.grad.dtype == dtype
