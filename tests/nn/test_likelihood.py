"""Losses of numbers and likelihoods against closed forms and SciPy's distributions, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, DTypeError, ShapeError
from shardwise.nn import functional as F
from tolerance import tolerance

DTYPES = [np.float32, np.float64]
SHAPES = [(), (7,), (3, 4), (2, 0, 3), (2, 3, 4)]
X, T = np.random.default_rng(0).standard_normal((2, 3, 4)) * 2
P, Q, W = np.random.default_rng(1).uniform(0.05, 0.95, (3, 3, 4))


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def bce(p: np.ndarray, t: np.ndarray) -> np.ndarray:
    return -special.xlogy(t, p) - special.xlog1py(1 - t, -p)


def huber(d: np.ndarray, delta: float) -> np.ndarray:
    return special.huber(delta, d)


# A call on tensors, its arguments, and the elements' losses.
CALLS: dict[str, tuple[Callable[..., sw.Tensor], tuple[np.ndarray, ...], Callable[..., np.ndarray]]] = {
    "mse": (F.mse_loss, (X, T), lambda x, t: (x - t) ** 2),
    "l1": (F.l1_loss, (X, T), lambda x, t: abs(x - t)),
    "smooth_l1": (F.smooth_l1_loss, (X, T), lambda x, t: huber(x - t, 1.0)),
    "smooth_l1 beta": (
        lambda x, t, reduction: F.smooth_l1_loss(x, t, reduction, 0.5),
        (X, T),
        lambda x, t: huber(x - t, 0.5) / 0.5,
    ),
    "smooth_l1 no beta": (
        lambda x, t, reduction: F.smooth_l1_loss(x, t, reduction, 0.0),
        (X, T),
        lambda x, t: abs(x - t),
    ),
    "huber": (
        lambda x, t, reduction: F.huber_loss(x, t, reduction, 0.7),
        (X, T),
        lambda x, t: huber(x - t, 0.7),
    ),
    "bce": (F.binary_cross_entropy, (P, Q), bce),
    "bce weight": (F.binary_cross_entropy, (P, Q, W[0]), lambda p, t, w: w * bce(p, t)),
    "bce logits": (F.binary_cross_entropy_with_logits, (X, Q), lambda x, t: bce(special.expit(x), t)),
    "bce logits weights": (
        lambda x, t, w, p, reduction: F.binary_cross_entropy_with_logits(x, t, w, reduction, p),
        (X, Q, W, W[0]),
        lambda x, t, w, p: -w * (p * t * special.log_expit(x) + (1 - t) * special.log_expit(-x)),
    ),
    "kl": (F.kl_div, (X, P), lambda x, t: t * (np.log(t) - x)),
    "kl log": (
        lambda x, t, reduction: F.kl_div(x, t, reduction, log_target=True),
        (X, np.log(P)),
        lambda x, t: np.exp(t) * (t - x),
    ),
    "poisson": (F.poisson_nll_loss, (X, 9 * P), lambda x, t: np.exp(x) - t * x),
    "poisson counts": (
        lambda x, t, reduction: F.poisson_nll_loss(x, t, False, reduction=reduction),
        (P, 9 * Q),
        lambda x, t: x - t * np.log(x + 1e-8),
    ),
    "gaussian": (
        F.gaussian_nll_loss,
        (X, T, P),
        lambda x, t, v: -stats.norm.logpdf(t, x, np.sqrt(v)) - 0.5 * np.log(2 * np.pi),
    ),
    "gaussian full": (
        lambda x, t, v, reduction: F.gaussian_nll_loss(x, t, v, full=True, reduction=reduction),
        (X, T, P[:, :1]),
        lambda x, t, v: -stats.norm.logpdf(t, x, np.sqrt(v)),
    ),
    "gaussian rows": (
        lambda x, t, v, reduction: F.gaussian_nll_loss(x, t, v, full=True, reduction=reduction),
        (X, T, P[:, 0]),
        lambda x, t, v: -stats.norm.logpdf(t, x, np.sqrt(v)[:, None]),
    ),
    "gaussian one": (
        lambda x, t, reduction: F.gaussian_nll_loss(x, t, 0.3, full=True, reduction=reduction),
        (X, T),
        lambda x, t: -stats.norm.logpdf(t, x, np.sqrt(0.3)),
    ),
    "hinge": (
        F.hinge_embedding_loss,
        (X, np.sign(T)),
        lambda x, t: np.where(t == 1, x, np.maximum(0, 1 - x)),
    ),
    "soft_margin": (F.soft_margin_loss, (X, np.sign(T)), lambda x, t: np.logaddexp(0, -t * x)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str, dtype: type) -> None:
    function, arrays, definition = CALLS[name]
    narrow = [a.astype(dtype) for a in arrays]
    losses = definition(*(a.astype(np.float64) for a in narrow))
    for reduction, want in (("none", losses), ("sum", losses.sum()), ("mean", losses.mean())):
        got = function(*map(sw.tensor, narrow), reduction=reduction)
        assert got.shape == np.shape(want)
        assert got.dtype == dtype
        room = 8 * tolerance(dtype, losses.size) * max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got.data, want, rtol=0, atol=room)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_layouts(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x, t = rng.uniform(0.1, 0.9, (2, *shape))
    pair = sw.tensor(x.T, requires_grad=True), sw.tensor(np.asarray(t.T))
    for function in (F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy, F.kl_div):
        losses = function(*pair, reduction="none")
        assert losses.shape == shape[::-1]
        mean = function(*pair)
        assert mean.shape == ()
        if losses.numel():
            np.testing.assert_allclose(mean.item(), losses.data.mean())
        else:
            assert np.isnan(mean.item())
        mean.backward()
        assert pair[0].grad.shape == shape[::-1]


def test_weights_of_elements() -> None:
    x, t, w = sw.tensor(X), sw.tensor(T), sw.tensor(W)
    for function, power in ((F.mse_loss, 2), (F.l1_loss, 1)):
        losses = W * abs(X - T) ** power
        np.testing.assert_allclose(function(x, t, weight=w).item(), losses.sum() / W.sum())
        np.testing.assert_allclose(function(x, t, "none", w).data, losses)
        assert np.isnan(function(x, t, weight=w * 0.0).item())
    np.testing.assert_allclose(F.huber_loss(x, t, weight=w).item(), (W * huber(X - T, 1.0)).mean())
    assert message(ShapeError, lambda: F.mse_loss(x, t, weight=w[0])) == (
        "mse_loss: weight of shape (4,) must have the shape of input, (3, 4)"
    )


def test_slopes_at_kinks() -> None:
    d = np.array([0.0, 1.0, -1.0])
    for function, want in (
        (F.l1_loss, [0, 1, -1]),
        (F.smooth_l1_loss, [0, 1, -1]),
        (F.huber_loss, [0, 1, -1]),
        (F.mse_loss, [0, 2, -2]),
    ):
        x = sw.tensor(d, requires_grad=True)
        function(x, sw.zeros(3, dtype=np.float64), reduction="sum").backward()
        assert x.grad.tolist() == want


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_inputs(dtype: type) -> None:
    big = np.array([1e30, -1e30, 1e4, -1e4], dtype)
    x, zero, one = sw.tensor(big, requires_grad=True), sw.zeros(4, dtype=dtype), sw.ones(4, dtype=dtype)
    np.testing.assert_allclose(F.smooth_l1_loss(x, zero, "none").data, abs(big) - dtype(0.5))
    np.testing.assert_allclose(F.huber_loss(x, zero, "none", 2.0).data, 2 * (abs(big) - dtype(1)))
    for target, want in ((zero, np.maximum(big, 0)), (one, np.maximum(-big, 0))):
        losses = F.binary_cross_entropy_with_logits(x, target, reduction="none")
        np.testing.assert_array_equal(losses.data, want)
        (slope,) = sw.tensor.grad([losses.sum()], [x])
        np.testing.assert_array_equal(slope.data, (big > 0) - target.data)
        weighted = F.binary_cross_entropy_with_logits(x, target, pos_weight=one, reduction="none")
        np.testing.assert_array_equal(weighted.data, want)
    np.testing.assert_array_equal(F.soft_margin_loss(x, -one, "none").data, np.maximum(big, 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_certain_probabilities(dtype: type) -> None:
    p = sw.tensor(np.array([0.0, 1.0, 0.0, 1.0, 1e-30], dtype), requires_grad=True)
    t = sw.tensor(np.array([0.0, 1.0, 1.0, 0.0, 0.0], dtype))
    losses = F.binary_cross_entropy(p, t, reduction="none")
    np.testing.assert_allclose(losses.data, [0.0, 0.0, 100.0, 100.0, 1e-30], rtol=1e-6)
    losses.sum().backward()
    assert np.isfinite(p.grad.data).all()


def test_kl_div_names_its_reductions() -> None:
    assert message(ArgumentError, lambda: F.kl_div(sw.ones(1), sw.ones(1), "sums")) == (  # type: ignore[arg-type]
        "kl_div: reduction must be 'mean', 'batchmean', 'sum' or 'none', got 'sums'"
    )


def test_kl_div() -> None:
    np.testing.assert_allclose(
        F.kl_div(sw.tensor(np.log(Q)), sw.tensor(P), "batchmean").item(),
        stats.entropy(P, Q, axis=1).mean() * 0 + (P * np.log(P / Q)).sum() / 3,
    )
    target = sw.tensor([0.0, 1.0], requires_grad=True)
    loss = F.kl_div(sw.tensor([-1.0, -2.0]), target, "none")
    assert loss.tolist() == [0.0, 2.0]
    loss.sum().backward()
    assert target.grad.tolist() == [1.0, 3.0]
    assert F.kl_div(sw.tensor(-1.0), sw.tensor(1.0), "batchmean").item() == 1.0
    assert np.isnan(F.kl_div(sw.ones(0, 2), sw.ones(0, 2), "batchmean").item())
    assert nn.KLDivLoss("batchmean", True)(sw.zeros(2, 2), sw.zeros(2, 2)).item() == 0.0
    assert "reduction must be" in message(ArgumentError, lambda: nn.KLDivLoss("batch"))  # type: ignore[arg-type]


def test_poisson_full_is_the_distribution() -> None:
    counts, rate = np.array([5.0, 20.0, 100.0]), np.array([4.0, 25.0, 90.0])
    loss = F.poisson_nll_loss(sw.tensor(np.log(rate)), sw.tensor(counts), full=True, reduction="none")
    np.testing.assert_allclose(loss.data, -stats.poisson.logpmf(counts, rate), atol=0.02)
    few = sw.tensor([0.0, 1.0])
    np.testing.assert_array_equal(
        F.poisson_nll_loss(few, few, full=True, reduction="none").data,
        F.poisson_nll_loss(few, few, reduction="none").data,
    )


def test_small_variances() -> None:
    var = sw.tensor([0.0, 1.0], dtype=np.float64, requires_grad=True)
    loss = nn.GaussianNLLLoss(eps=0.01, reduction="none")(
        sw.tensor([1.0, 1.0], dtype=np.float64), sw.zeros(2, dtype=np.float64), var
    )
    np.testing.assert_allclose(loss.data, [0.5 * (np.log(0.01) + 100.0), 0.5])
    loss.sum().backward()
    np.testing.assert_allclose(var.grad.data, [0.5 * (100.0 - 10000.0), 0.0])


def test_refused() -> None:
    x = sw.ones(2, 3)
    fix = "must agree; reshape or expand one"
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div"):
        assert message(ShapeError, lambda name=name: getattr(F, name)(x, sw.ones(3))) == (
            f"{name}: input of shape (2, 3) and target of shape (3,) {fix}"
        )
        assert "one dtype, got input float32, target float64" in message(
            DTypeError, lambda name=name: getattr(F, name)(x, sw.ones(2, 3, dtype=np.float64))
        )
        assert message(ArgumentError, lambda name=name: getattr(F, name)(x, x, reduction=None)).endswith(
            "'sum' or 'none', got None"
        )
    assert message(ArgumentError, lambda: F.binary_cross_entropy(x * 2.0, x)) == (
        "binary_cross_entropy: input must be probabilities from 0 to 1, and input[0, 0] is 2.0; for logits "
        "take binary_cross_entropy_with_logits"
    )
    assert message(ArgumentError, lambda: F.huber_loss(x, x, delta=0.0)) == (
        "huber_loss: delta must be above 0, got 0.0"
    )
    assert message(ArgumentError, lambda: F.smooth_l1_loss(x, x, beta=-1.0)) == (
        "smooth_l1_loss: beta must be at least 0, got -1.0"
    )
    assert message(ArgumentError, lambda: F.gaussian_nll_loss(x, x, -1.0)) == (
        "gaussian_nll_loss: var must not be negative, and its least element is -1.0"
    )
    assert message(ShapeError, lambda: F.gaussian_nll_loss(x, x, sw.ones(3))) == (
        "gaussian_nll_loss: var of shape (3,) must have the shape of input, (2, 3), that with one dim of "
        "size 1, or that without its last dim"
    )
    assert message(ShapeError, lambda: F.binary_cross_entropy_with_logits(x, x, pos_weight=sw.ones(2))) == (
        "binary_cross_entropy_with_logits: pos_weight of shape (2,) does not broadcast to input of (2, 3)"
    )


@pytest.mark.parametrize(
    ("layer", "function", "arrays"),
    [
        (nn.MSELoss(), F.mse_loss, (X, T)),
        (nn.L1Loss("sum"), lambda x, t: F.l1_loss(x, t, "sum"), (X, T)),
        (nn.SmoothL1Loss(beta=0.3), lambda x, t: F.smooth_l1_loss(x, t, beta=0.3), (X, T)),
        (nn.HuberLoss(delta=0.3), lambda x, t: F.huber_loss(x, t, delta=0.3), (X, T)),
        (nn.BCELoss(sw.tensor(W)), F.binary_cross_entropy, (P, Q, W)),
        (
            nn.BCEWithLogitsLoss(sw.tensor(W), "sum", sw.tensor(W[0])),
            lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, "sum", p),
            (X, Q, W, W[0]),
        ),
        (nn.KLDivLoss(), F.kl_div, (X, P)),
        (nn.PoissonNLLLoss(full=True), lambda x, t: F.poisson_nll_loss(x, t, full=True), (X, 5 * P)),
        (nn.GaussianNLLLoss(full=True), lambda x, t, v: F.gaussian_nll_loss(x, t, v, True), (X, T, P)),
    ],
)
def test_layers_are_their_functions(
    layer: nn.Module, function: Callable[..., sw.Tensor], arrays: tuple[Any, ...]
) -> None:
    tensors = [sw.tensor(a) for a in arrays]
    held = len(list(layer.buffers()))
    assert layer(*tensors[: len(tensors) - held]).item() == function(*tensors).item()
