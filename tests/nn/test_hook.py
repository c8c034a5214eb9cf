"""Hooks around forward and backward: what they see, what they may replace, and in which order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import AutogradError, ModuleError
from shardwise.tensor import grad


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


class Mix(nn.Module):
    """Two inputs, two outputs."""

    def forward(self, x: sw.Tensor, y: sw.Tensor, scale: float = 1.0) -> tuple[sw.Tensor, sw.Tensor]:
        return x * y * scale, x + 2.0 * y


def leaves() -> tuple[sw.Tensor, sw.Tensor]:
    return sw.tensor([1.0, 2.0], requires_grad=True), sw.tensor([3.0, 4.0], requires_grad=True)


def test_forward_hooks_with_keywords() -> None:
    module, seen = Mix(), []
    x, y = leaves()
    module.register_forward_pre_hook(lambda m, args, kwargs: seen.append(kwargs.copy()), with_kwargs=True)
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args[::-1], {"scale": kwargs["scale"] * 2}), with_kwargs=True
    )
    module.register_forward_hook(
        lambda m, args, kwargs, out: (out[0] + kwargs["scale"], args[0]), with_kwargs=True
    )
    first, second = module(x, y, scale=5.0)
    assert seen == [{"scale": 5.0}]
    assert first.tolist() == [40.0, 90.0]  # 1 * 3 * 10 + 10
    assert second is y
    wrong = nn.ReLU()
    wrong.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    assert message(ModuleError, lambda: wrong(x)) == (
        "a forward pre-hook of ReLU with with_kwargs=True must return None or (args, kwargs), not tuple"
    )


def test_order_and_prepend() -> None:
    module, seen = nn.ReLU(), []
    for name, prepend in (("a", False), ("b", True), ("c", False)):
        module.register_forward_hook(lambda *_, n=name: seen.append(n), prepend=prepend)
        module.register_forward_pre_hook(lambda *_, n=name: seen.append(f"pre {n}"), prepend=prepend)
    module(sw.ones(1))
    assert seen == ["pre b", "pre a", "pre c", "b", "a", "c"]


def test_hooks_that_are_called_in_any_case() -> None:
    class Fails(nn.Module):
        def forward(self, x: sw.Tensor) -> sw.Tensor:
            raise ValueError("no")

    module, seen = Fails(), []
    module.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append(("never", out)))
    assert message(ValueError, lambda: module(sw.ones(1))) == "no"
    assert seen == [("always", None)]
    good = nn.ReLU()
    good.register_forward_hook(lambda m, args, out: seen.append(("once", out.item())), always_call=True)
    good(sw.ones(1))
    assert seen[1:] == [("once", 1.0)]


def test_backward_hooks_see_gradients_on_both_sides() -> None:
    module, seen = Mix(), []
    x, y = leaves()
    module.register_full_backward_pre_hook(lambda m, outs: seen.append(("pre", m, outs)))
    module.register_full_backward_hook(lambda m, ins, outs: seen.append(("post", m, ins, outs)))
    first, second = module(x, y, scale=1.0)
    (first.sum() + 10.0 * second.sum()).backward()
    assert [s[0] for s in seen] == ["pre", "post"]
    assert seen[0][1] is seen[1][1] is module
    assert [g.tolist() for g in seen[0][2]] == [[1.0, 1.0], [10.0, 10.0]]
    assert [g.tolist() for g in seen[1][3]] == [[1.0, 1.0], [10.0, 10.0]]
    assert [g.tolist() for g in seen[1][2]] == [[13.0, 14.0], [21.0, 22.0]]
    assert x.grad.tolist() == [13.0, 14.0]
    assert y.grad.tolist() == [21.0, 22.0]


def test_gradients_can_be_replaced_on_both_sides() -> None:
    module = Mix()
    x, y = leaves()
    module.register_full_backward_pre_hook(lambda m, outs: (outs[0] * 2.0, outs[1]))
    handle = module.register_full_backward_hook(lambda m, ins, outs: (ins[0] + 100.0, None))
    first, second = module(x, y)
    (first.sum() + second.sum()).backward()
    assert x.grad.tolist() == [2.0 * 3 + 1 + 100, 2.0 * 4 + 1 + 100]
    assert y.grad is None
    handle.remove()
    module(x, y)[0].sum().backward()
    assert y.grad.tolist() == [2.0, 4.0]


def test_places_without_a_gradient_are_none() -> None:
    module, seen = Mix(), []
    x, _ = leaves()
    module.register_full_backward_hook(lambda m, ins, outs: seen.append((ins, outs)))
    first, _ = module(x, sw.tensor([3.0, 4.0]))
    first.sum().backward()
    (ins, outs) = seen[0]
    assert ins[1] is None
    assert ins[0].tolist() == [3.0, 4.0]
    assert outs[1].tolist() == [0.0, 0.0]  # an output that nobody used


def test_inputs_that_need_no_gradient() -> None:
    module, seen = nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda m, ins, outs: seen.append((ins, outs[0].tolist())))
    module(sw.ones(3, 2)).sum().backward()
    assert seen == [((None,), [[1.0]] * 3)]
    assert module.weight.grad.tolist() == [[3.0, 3.0]]


def test_backward_hooks_under_create_graph() -> None:
    module, seen = nn.Sequential(nn.GELU()), []
    x = sw.tensor(np.array([0.3, -0.5]), requires_grad=True)
    module.register_full_backward_hook(lambda m, ins, outs: seen.append(ins[0]))
    (g,) = grad(module(x).sum(), [x], create_graph=True)
    assert seen[0].requires_grad
    g.sum().backward()
    plain = sw.tensor(x.data.copy(), requires_grad=True)
    bare = copy.deepcopy(module)
    bare._backward_hooks.clear()
    grad(bare(plain).sum(), [plain], create_graph=True)[0].sum().backward()
    np.testing.assert_allclose(x.grad.data, plain.grad.data, rtol=1e-12)


def test_a_wrong_gradient_from_a_hook_is_refused() -> None:
    module = Mix()
    x, y = leaves()
    module.register_full_backward_hook(lambda m, ins, outs: (ins[0],))
    assert message(AutogradError, lambda: module(x, y)[0].sum().backward()) == (
        "a backward hook must return None or a new grad_input: tensors of shapes ((2,), (2,)), or None for "
        "one that is not there; it returned ((2,))"
    )


def test_writes_in_a_watched_module_are_noticed() -> None:
    class Writes(nn.Module):
        def forward(self, x: sw.Tensor) -> sw.Tensor:
            return x.add_(1.0)

    module = Writes()
    x = sw.tensor([1.0], requires_grad=True)
    y = x * 2.0
    module.register_full_backward_hook(lambda *_: None)
    assert "clone() it first" in message(AutogradError, lambda: module(y))


def test_hooks_are_copied_with_their_module() -> None:
    calls: list[int] = []

    def count(module: nn.Module, args: Any, out: Any) -> None:
        calls.append(id(module))

    module = nn.ReLU()
    module.register_forward_hook(count)
    twin = copy.deepcopy(module)
    twin(sw.ones(1))
    assert calls == [id(twin)]
