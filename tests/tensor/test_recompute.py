"""recompute: the same numbers from less memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import AutogradError
from shardwise.nn import functional as F
from shardwise.tensor import backward_inputs, grad, gradcheck, gradgradcheck
from shardwise.tensor.tape import Node, edges_of


def make(*shape: int) -> sw.Tensor:
    return sw.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=True)


class Net(nn.Module):
    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again
        self.layers = nn.ModuleList(nn.Linear(6, 6, dtype=np.float64) for _ in range(3))
        self.drop = nn.Dropout(0.4)

    def block(self, layer: nn.Module, x: sw.Tensor) -> sw.Tensor:
        return x + self.drop(layer(x).tanh())

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        for layer in self.layers:
            x = sw.recompute(self.block, layer, x) if self.again else self.block(layer, x)
        return x


def run(again: bool) -> list[Any]:
    sw.manual_seed(0)
    net = Net(again)
    x = make(4, 6)
    for _ in range(2):  # two forwards draw different masks
        (net(x) ** 2).sum().backward()
    return [x.grad.data, *(p.grad.data for p in net.parameters())]  # type: ignore[union-attr]


def test_gradients_and_dropout_are_the_same() -> None:
    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_is_saved_until_backward() -> None:
    calls = []

    def block(x: sw.Tensor) -> sw.Tensor:
        calls.append(1)
        return x.exp().tanh().sin()

    x = make(3)
    y = sw.recompute(block, x)
    node = y.node
    saved = []
    while node is not None:
        saved.append(node.saved)
        edge = edges_of(node)[0]
        assert edge is not None
        node = edge[0] if isinstance(edge[0], Node) else None
    assert len(saved) == 3
    assert not any(isinstance(arrays, tuple) for arrays in saved)
    y.sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_graph_dies_with_its_last_tensor(again: bool) -> None:
    x = make(3)
    y = sw.recompute(lambda a: a.exp().sin(), x) if again else x.exp().sin()
    node = weakref.ref(y.node)  # type: ignore[arg-type]
    gc.disable()  # by reference counts alone
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_hooks_of_shared_parameters_fire_once() -> None:
    fired = []
    w = make(3)
    w.register_post_accumulate_grad_hook(lambda t: fired.append(1))
    x = make(3)
    y = sw.recompute(lambda a: a * w, x) * w
    y.sum().backward()
    assert fired == [1]
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.data, 2 * x.data * w.data)


def test_higher_order_retained_and_two_phase() -> None:
    assert gradcheck(lambda x: sw.recompute(lambda a: (a * a).tanh(), x), (make(3),))
    assert gradgradcheck(lambda x: sw.recompute(lambda a: (a * a).tanh(), x), (make(3),))
    x, w = make(3), make(3)
    y = sw.recompute(lambda a: (a * w).tanh(), x).sum()
    y.backward(retain_graph=True)
    assert x.grad is not None
    assert w.grad is not None
    first = (x.grad.data.copy(), w.grad.data.copy())
    x.grad = w.grad = None
    (gx,), rest = backward_inputs([y], None, [x])
    rest.run()
    assert gx is not None
    assert w.grad is not None
    np.testing.assert_array_equal(gx.data, first[0])
    np.testing.assert_array_equal(w.grad.data, first[1])


def test_a_function_that_changes_is_an_error() -> None:
    flag = [True]
    x = make(3)
    y = sw.recompute(lambda a: a.exp() if flag[0] else a.tanh(), x)
    flag[0] = False
    with pytest.raises(AutogradError, match="number 0 was Exp and is now Tanh"):
        y.sum().backward()


def test_an_input_that_was_overwritten_is_an_error() -> None:
    x = make(3)
    h = x * 1.0
    y = sw.recompute(lambda a: a.exp(), h)
    with sw.no_grad():
        h.add_(1.0)
    with pytest.raises(AutogradError, match=r"an input of recompute\(\) was written in place"):
        y.sum().backward()


def test_without_grad_it_just_runs() -> None:
    with sw.no_grad():
        assert sw.recompute(lambda a: a * 2.0, sw.tensor([1.0])).tolist() == [2.0]


def test_dropout_in_a_functional_block() -> None:
    x = make(50)
    sw.manual_seed(1)
    plain = F.dropout(x, 0.5)
    sw.manual_seed(1)
    again = sw.recompute(lambda a: F.dropout(a, 0.5), x)
    np.testing.assert_array_equal(plain.data, again.data)
    again.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.data != 0, plain.data != 0)


def test_gradients_inside_the_function_are_refused() -> None:
    def block(x: sw.Tensor) -> sw.Tensor:
        (g,) = grad((x * x * x).sum(), x, create_graph=True)
        return g

    with pytest.raises(
        AutogradError, match=r"asked for gradients of what it had just computed.*outside of it"
    ):
        sw.recompute(block, make(3))


def test_a_write_into_what_was_saved_is_found() -> None:
    def block(x: sw.Tensor) -> sw.Tensor:
        y = x * 1.0
        z = y.sin()
        y.zero_()
        return z

    x = make(3)
    for run in (block, lambda x: sw.recompute(block, x)):
        with pytest.raises(AutogradError, match=r"input 0 of Sin, .* was written in place"):
            run(x).sum().backward()
