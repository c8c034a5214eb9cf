"""clip_grad_norm_ against NumPy's norms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, AutogradError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def parameters(*grads: np.ndarray | None) -> list[nn.Parameter]:
    result = []
    for grad in grads:
        p = nn.Parameter(sw.zeros(3 if grad is None else grad.shape))
        p.grad = None if grad is None else sw.tensor(grad)
        result.append(p)
    return result


RNG = np.random.default_rng(0)
GRADS = [RNG.standard_normal((3, 4)), None, RNG.standard_normal(5), np.zeros(0), RNG.standard_normal(())]
FLAT = np.concatenate([g.ravel() for g in GRADS if g is not None])


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize("part", [0.5, 2.0])
def test_norms(order: float, part: float) -> None:
    norm = np.linalg.norm(FLAT, order)
    ps = parameters(*(None if g is None else np.asarray(g) for g in GRADS))
    places = [None if p.grad is None else p.grad.data for p in ps]
    total = nn.clip_grad_norm_(iter(ps), part * norm, order)  # an iterator will do
    assert total.shape == ()
    np.testing.assert_allclose(total.item(), norm, rtol=1e-12)
    scale = min(1.0, part * norm / (norm + 1e-6))
    for p, grad, place in zip(ps, GRADS, places, strict=True):
        if grad is None:
            assert p.grad is None
        else:
            assert p.grad.data is place  # in place
            np.testing.assert_allclose(p.grad.data, grad * scale, rtol=1e-12)


def test_one_tensor_or_none() -> None:
    (p,) = parameters(np.array([3.0, 4.0]))
    assert nn.clip_grad_norm_(p, 1.0).item() == 5.0
    np.testing.assert_allclose(p.grad.data, [0.6, 0.8], rtol=1e-6)
    assert nn.clip_grad_norm_([], 1.0).item() == 0.0
    assert nn.clip_grad_norm_(parameters(None), 1.0, float("inf")).item() == 0.0


def test_float32_is_added_up_in_float64() -> None:
    grad = np.full(200_000, 1e-3, np.float32)
    grad[0] = 3e2
    (p,) = parameters(grad)
    norm = nn.clip_grad_norm_(p, 1e9).item()
    np.testing.assert_allclose(norm, np.sqrt(np.sum(grad.astype(np.float64) ** 2)), rtol=1e-10)


def test_large_and_small_gradients_of_float16() -> None:
    (p,) = parameters(np.full(4, 6e4, np.float16))  # squares of which do not fit
    assert nn.clip_grad_norm_(p, 1.0).item() == pytest.approx(1.2e5, rel=1e-3)
    np.testing.assert_allclose(p.grad.data, 0.5, rtol=1e-3)
    assert p.grad.dtype == np.float16


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_norms_that_are_not_finite(bad: float, first: bool, order: float) -> None:
    grads = [np.array([bad, 1.0]), np.array([2.0])]
    ps = parameters(*(grads if first else grads[::-1]))
    assert message(AutogradError, lambda: nn.clip_grad_norm_(ps, 1.0, order, error_if_nonfinite=True)) == (
        f"the gradients' norm of order {order} is {bad}, so they cannot be clipped"
    )
    assert {2.0} <= {x for p in ps for x in p.grad.tolist()}  # nothing was scaled yet
    total = nn.clip_grad_norm_(ps, 1.0, order).item()
    assert np.isnan(total) if np.isnan(bad) else total == np.inf
    others = [x for p in ps for x in p.grad.tolist() if not np.isnan(x)]
    assert others == ([] if np.isnan(bad) else [0.0, 0.0])  # inf * 0 is NaN, the others become 0


def test_clipping_between_forward_and_backward_is_caught() -> None:
    x = sw.tensor([3.0], requires_grad=True)
    p = nn.Parameter(sw.ones(1))
    p.grad = sw.tensor([5.0])
    loss = (x * p.grad).sum()
    nn.clip_grad_norm_(p, 1.0)
    with pytest.raises(AutogradError, match="written in place"):
        loss.backward()


def test_values() -> None:
    ps = parameters(*(None if g is None else np.asarray(g) for g in GRADS))
    places = [None if p.grad is None else p.grad.data for p in ps]
    nn.clip_grad_value_(iter(ps), 0.5)
    for p, grad, place in zip(ps, GRADS, places, strict=True):
        if grad is not None:
            assert p.grad.data is place  # in place
            np.testing.assert_array_equal(p.grad.data, np.clip(grad, -0.5, 0.5))
    nn.clip_grad_value_(ps[0], 0)
    assert not ps[0].grad.data.any()
    assert message(ArgumentError, lambda: nn.clip_grad_value_(ps, -1.0)) == (
        "clip_grad_value_ needs clip_value >= 0, got -1.0"
    )


def test_refused() -> None:
    for max_norm, order in ((-1.0, 2.0), (float("nan"), 2.0), (1.0, 0.0), (1.0, -1.0)):
        assert message(ArgumentError, lambda m=max_norm, o=order: nn.clip_grad_norm_([], m, o)) == (
            f"clip_grad_norm_ needs max_norm >= 0 and norm_type > 0; got {max_norm} and {order}"
        )
