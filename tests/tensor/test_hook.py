"""Hooks on gradients: which run, what they may return, and what they may keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError
from shardwise.tensor import Tensor


def leaf() -> Tensor:
    return sw.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)


def ways(x: Tensor, y: Tensor) -> dict[str, Callable[[Callable[[Tensor], Any]], Any]]:
    """Every way to register a hook: on a leaf, on a result, after accumulation."""
    return {
        "leaf": x.register_hook,
        "result": y.register_hook,
        "post": x.register_post_accumulate_grad_hook,
    }


@pytest.mark.parametrize("way", ["leaf", "result", "post"])
def test_a_hook_that_takes_itself_away_leaves_the_others(way: str) -> None:
    x = leaf()
    y = x * 2.0
    calls: list[str] = []
    register = ways(x, y)[way]

    def once(_: Tensor) -> None:
        calls.append("once")
        handle.remove()

    handle = register(once)
    register(lambda _: calls.append("always"))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert calls == ["once", "always", "always"]


@pytest.mark.parametrize("way", ["leaf", "result"])
@pytest.mark.parametrize(
    ("hook", "returned"),
    [
        (lambda g: g.sum(), r"a tensor of shape \(\) and float64"),
        (lambda g: g.float(), r"a tensor of shape \(2,\) and float32"),
        (lambda g: g.numpy(), "a ndarray"),
        (lambda g: 1.0, "a float"),
    ],
)
def test_a_replacement_must_be_like_the_gradient(way: str, hook: Any, returned: str) -> None:
    x = leaf()
    y = x * 2.0
    ways(x, y)[way](hook)
    what = "a leaf" if way == "leaf" else "a result of Mul"
    with pytest.raises(
        AutogradError,
        match=rf"a hook on {what} must return None or a tensor like the gradient, "
        rf"of shape \(2,\) and float64; it returned {returned}",
    ):
        y.sum().backward()


def test_what_a_hook_keeps_is_not_written_later() -> None:
    x = leaf()
    kept: list[Tensor] = []
    x.register_hook(kept.append)  # type: ignore[arg-type]
    for _ in range(2):
        (x * 2.0).sum().backward()
    assert [g.tolist() for g in kept] == [[2.0, 2.0], [2.0, 2.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 4.0]


def test_what_a_hook_returns_is_not_written_later() -> None:
    x = leaf()
    ones = sw.ones(2, dtype=np.float64)
    x.register_hook(lambda _: ones)
    for _ in range(2):
        (x * 2.0).sum().backward()
    assert ones.tolist() == [1.0, 1.0]
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_after_a_hook_that_raised() -> None:
    x, w = leaf(), leaf()

    def broken(_: Tensor) -> None:
        raise ZeroDivisionError

    handle = x.register_hook(broken)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        (x * w).sum().backward()
    handle.remove()
    x.grad = w.grad = None
    (x * w).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0]


def test_backward_inside_a_hook() -> None:
    x, z = leaf(), leaf()

    def inner(_: Tensor) -> None:
        with sw.enable_grad():
            (z * 3.0).sum().backward()

    x.register_hook(inner)  # type: ignore[arg-type]
    (x * 2.0).sum().backward()
    assert x.grad is not None
    assert z.grad is not None
    assert (x.grad.tolist(), z.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_hooks_where_no_gradient_comes_say_what_to_do() -> None:
    still = sw.tensor([1.0, 2.0])
    first = "call requires_grad_() first"
    with pytest.raises(AutogradError) as caught:
        still.register_hook(lambda g: None)
    assert str(caught.value) == (
        f"cannot register a hook on a tensor that does not require grad, since it gets no gradient; {first}"
    )
    with pytest.raises(AutogradError) as caught:
        still.retain_grad()
    assert str(caught.value) == (
        f"cannot retain the gradient of a tensor that does not require grad, since it gets none; {first}"
    )
    with pytest.raises(AutogradError) as caught:
        still.register_post_accumulate_grad_hook(lambda t: None)
    belongs = "a post-accumulate hook belongs on a leaf that requires grad, and this tensor"
    assert str(caught.value) == f"{belongs} does not; {first}"
    with pytest.raises(AutogradError) as caught:
        still.requires_grad_().exp().register_post_accumulate_grad_hook(lambda t: None)
    assert str(caught.value) == f"{belongs} is the result of Exp; use register_hook()"
