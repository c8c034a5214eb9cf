"""Losses of classes and of numbers against SciPy and closed forms, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as scipy_special

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from shardwise.nn import functional as F
from tolerance import tolerance

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64]


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def near(got: sw.Tensor, want: Any, length: int = 1) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)))
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=0, atol=scale * tolerance(got.dtype, length))


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
            near(loss, want, max(target.size, 6))
        assert loss.dtype == dtype


def test_cross_entropy_gradient_is_softmax_minus_target() -> None:
    x = sw.tensor(RNG.standard_normal((5, 4)), requires_grad=True)
    target = np.array([0, 3, -100, 2, 2])
    F.cross_entropy(x, sw.tensor(target)).backward()
    want = scipy_special.softmax(x.data, 1)
    want[np.arange(5), np.where(target < 0, 0, target)] -= 1
    want[2] = 0
    near(x.grad, want / 4, 4)


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
    near(nn.MSELoss()(sw.tensor(a), sw.tensor(b)), squares.mean(), 12)
    near(nn.MSELoss("sum")(sw.tensor(a), sw.tensor(b)), squares.sum(), 12)
    near(nn.MSELoss("none")(sw.tensor(a), sw.tensor(b)), squares)
    assert message(ShapeError, lambda: F.mse_loss(sw.ones(3), sw.ones(3, 1))) == (
        "mse_loss: input of shape (3,) and target of shape (3, 1) must agree; reshape or expand one"
    )
