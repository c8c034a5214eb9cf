"""Every op's gradient, and its gradient's gradient, against finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shardwise as sw
from gradient_cases import CASES, make
from shardwise.nn import functional as F
from shardwise.tensor import gradcheck, gradgradcheck


@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str) -> None:
    function, inputs = CASES[name]
    assert gradcheck(function, inputs)


@pytest.mark.parametrize("name", CASES)
def test_gradient_of_gradient(name: str) -> None:
    function, inputs = CASES[name]
    assert gradgradcheck(function, inputs)


def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        sw.manual_seed(3)
        return function(*args)

    return run


def test_dropout_gradients() -> None:
    drop = seeded(lambda x: F.dropout(x, 0.4))
    assert gradcheck(drop, (make(4, 5),))
    assert gradgradcheck(drop, (make(4, 5),))
    attend = seeded(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True))
    assert gradcheck(attend, (make(1, 3, 2), make(1, 3, 2, seed=1), make(1, 3, 2, seed=2)))


def test_ties_share_the_gradient() -> None:
    x = sw.tensor([[1.0, 3.0, 3.0]], requires_grad=True)
    x.amax(1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0, 0.5, 0.5]]
    a, b = sw.tensor([2.0], requires_grad=True), sw.tensor([2.0], requires_grad=True)
    a.maximum(b).backward()
    assert (a.grad.item(), b.grad.item()) == (0.5, 0.5)


def test_gradcheck_finds_a_wrong_gradient() -> None:
    class Wrong(sw.Function):
        signature = "*"

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved
            return (g * x,)  # the 2 is missing

    with pytest.raises(
        RuntimeError, match=r"gradcheck: the gradient of output 0, element 0, .* by differences"
    ):
        gradcheck(Wrong.apply, (make(3),))
    with pytest.raises(TypeError, match="needs float64 or complex128"):
        gradcheck(Wrong.apply, (sw.tensor([1.0], requires_grad=True),))
