"""Backward in two halves: the gradients of inputs first, those of weights later."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError
from shardwise.tensor import Tensor, backward_inputs
from shardwise.tensor.tape import edges_of


def double(g: Tensor) -> Tensor:
    return g * 2.0


def leaf(*values: float) -> Tensor:
    return sw.tensor(list(values), dtype=np.float64, requires_grad=True)


@pytest.mark.parametrize("weight_only", [False, True])
def test_two_halves_equal_one_backward(weight_only: bool) -> None:
    rng = np.random.default_rng(0)
    x = sw.tensor(rng.standard_normal((4, 3)), requires_grad=True)
    ws = [sw.tensor(rng.standard_normal((3, 3)), requires_grad=True) for _ in range(3)]
    scale = sw.tensor(rng.standard_normal(3), requires_grad=True)

    def model() -> Tensor:
        h = x
        for w in ws:
            h = (h @ (w * scale)).tanh() + h  # w * scale depends on weights only
        return (h * h).sum() if not weight_only else (ws[0] * 2.0).sum()

    model().backward()
    whole = [t.grad.data.copy() if t.grad is not None else None for t in (x, *ws, scale)]
    for t in (x, *ws, scale):
        t.grad = None
    (gx,), rest = backward_inputs([model()], None, [x])
    assert x.grad is None
    assert all(w.grad is None for w in ws)
    rest.run()
    halves = [
        None if gx is None else gx.data,
        *(t.grad.data if t.grad is not None else None for t in (*ws, scale)),
    ]
    for a, b in zip(whole, halves, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            np.testing.assert_array_equal(a, b)
    with pytest.raises(AutogradError, match="have been computed already"):
        rest.run()


def test_the_first_half_frees_what_the_second_does_not_need() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = (x * w).tanh()
    tanh = h.node
    (_,), rest = backward_inputs([h.sum()], None, [x])
    assert tanh is not None
    assert tanh.saved is None
    product = edges_of(tanh)[0]
    assert product is not None
    assert isinstance(product[0].saved, tuple)
    assert product[0].saved
    rest.run()
    assert product[0].saved is None


def test_hooks_hear_of_a_gradient_in_one_half_only() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    product = x * w
    product.register_hook(double)
    product.retain_grad()
    weights_only = w * w
    weights_only.register_hook(double)
    (gx,), rest = backward_inputs([(product + weights_only).sum()], None, [x])
    rest.run()
    assert gx is not None
    assert product.grad is not None
    assert w.grad is not None
    assert gx.tolist() == [6.0, 8.0]
    assert product.grad.tolist() == [2.0, 2.0]
    assert w.grad.tolist() == [2.0 * 1.0 + 2.0 * 6.0, 2.0 * 2.0 + 2.0 * 8.0]
