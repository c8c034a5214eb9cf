"""Copies and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AutogradError
from shardwise.nn import Parameter
from shardwise.tensor.tensor import Tensor


def pickled(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_what_goes_along(again: Callable[[Any], Any]) -> None:
    x = Parameter(np.array([1.0, 2.0], np.float16))
    x.label = ["kept"]  # type: ignore[attr-defined]
    x.register_hook(lambda g: g * 2.0)
    y = again(x)
    assert type(y) is Parameter
    assert (y.tolist(), y.dtype, y.requires_grad, y.label) == ([1.0, 2.0], np.float16, True, ["kept"])
    assert np.shares_memory(x.data, y.data) == (again is copy.copy)
    assert (y.label is x.label) == (again is copy.copy)  # type: ignore[attr-defined]
    y.sum().backward()
    assert x.grad is None
    assert y.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.complex64, ml_dtypes.bfloat16])
def test_dtypes_stay(again: Callable[[Any], Any], dtype: Any) -> None:
    x = sw.tensor([[0, 1], [1, 0]], dtype=dtype)[:, 1]
    y = again(x)
    assert (y.dtype, y.tolist(), y.requires_grad) == (np.dtype(dtype), x.tolist(), False)


def test_a_deep_copy_has_a_gradient_of_its_own() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    assert y.grad is not None
    assert y.grad.tolist() == [2.0, 4.0]
    y.grad.zero_()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
    assert copy.copy(x).grad is None
    assert pickled(x).grad is None


@pytest.mark.parametrize("again", [copy.deepcopy, pickled])
def test_what_is_shared_stays_shared(again: Callable[[Any], Any]) -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    first, twin, same = again([x, x.detach(), x])
    assert first is same
    assert np.shares_memory(first.data, twin.data)
    assert (first.requires_grad, twin.requires_grad) == (True, False)


def test_a_shallow_copy_stays_on_the_tape_and_is_watched() -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    y = copy.copy(x * 3.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    z = sw.ones(2)
    product = x * z
    copy.copy(z).add_(1.0)
    with pytest.raises(AutogradError, match="was written in place after it was saved"):
        product.sum().backward()


def test_results_of_ops_are_neither_deep_copied_nor_pickled() -> None:
    y = sw.tensor([1.0], requires_grad=True) * 2.0
    with pytest.raises(AutogradError, match=r"only leaves can be deep-copied; detach\(\) first"):
        copy.deepcopy(y)
    with pytest.raises(AutogradError, match=r"only leaves can be pickled; detach\(\) first"):
        pickle.dumps(y)
    assert pickled(y.detach()).tolist() == [2.0]


def test_a_view_is_pickled_without_what_it_looks_at() -> None:
    large = sw.zeros(1000, 1000)
    assert len(pickle.dumps(large[:2, :3])) < 1000
    assert pickled(large[:2, :3].T).shape == (3, 2)


def test_memory_can_be_pickled_out_of_band() -> None:
    x = sw.arange(1000.0)
    buffers: list[Any] = []
    head = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(head) < 500
    y = pickle.loads(head, buffers=buffers)
    assert np.shares_memory(x.data, y.data)


def test_classes_with_arguments_of_their_own() -> None:
    y = copy.deepcopy(Named("a", np.ones(2)))
    assert (type(y), y.name, y.tolist()) == (Named, "a", [1.0, 1.0])
    assert pickled(y).name == "a"


class Named(Tensor):
    def __init__(self, name: str, data: Any) -> None:
        super().__init__(data)
        self.name = name


def test_a_deep_copy_of_a_transposed_tensor_keeps_its_strides() -> None:
    x = sw.zeros(2, 3).T
    assert copy.deepcopy(x).stride() == x.stride() == (1, 3)
