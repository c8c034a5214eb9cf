"""Tensors without dims: NumPy gives scalars for them, which the tape must take back as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError
from shardwise.tensor import grad, gradcheck, gradgradcheck


def make(value: float) -> sw.Tensor:
    return sw.tensor(value, dtype=np.float64, requires_grad=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "sqrt": lambda x: x.sqrt(),
    "erf": lambda x: x.erf(),
    "amax": lambda x: x.amax(),
    "softmax": lambda x: x.softmax() * x,
    "power": lambda x: x**2.5,
    "quotient": lambda x: 1.0 / x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_gradients(name: str) -> None:
    assert gradcheck(FUNCTIONS[name], (make(0.7),))
    assert gradgradcheck(FUNCTIONS[name], (make(0.7),))


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_an_extreme_of_all_elements_under_create_graph(name: str) -> None:
    x = sw.tensor([3.0, 1.0, 2.0], dtype=np.float64, requires_grad=True)
    assert gradgradcheck(lambda x: getattr(x, name)() * x.sum(), (x,))
    (g,) = grad(getattr(x, name)(), x, create_graph=True)
    assert g.tolist() == [float(value == (3.0 if name == "amax" else 1.0)) for value in x.tolist()]


@pytest.mark.parametrize("times", [2, 3, 4])
def test_a_leaf_that_is_used_several_times(times: int) -> None:
    x = make(1.5)
    for _ in range(2):
        total = x * 2.0
        for _ in range(times - 1):
            total = total + x.exp()
        total.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.item(), 2.0 * (2.0 + (times - 1) * np.exp(1.5)), rtol=1e-12)


def test_a_result_that_is_used_several_times() -> None:
    x = make(1.5)
    y = x * x
    (y + y * 2.0 + y.exp() + y).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.item(), 3.0 * (4.0 + np.exp(2.25)), rtol=1e-12)


def test_a_saved_result_is_watched() -> None:
    x = make(1.5)
    y = x.exp()
    y.mul_(2.0)
    with pytest.raises(AutogradError, match=r"output 0 of Exp, of shape \(\), was written in place"):
        y.backward()
