"""Devices: moving, and inputs that cannot meet. A subclass of ndarray stands in for CuPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend import select
from shardwise.errors import DeviceError
from shardwise.tensor import Tensor, grad


class Elsewhere(np.ndarray):  # type: ignore[type-arg]
    """An array of another device: refuses to meet NumPy's, as CuPy's do."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(type(x) is np.ndarray for x in inputs):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        plain = [np.asarray(x) for x in inputs]
        return np.asarray(getattr(ufunc, method)(*plain)).view(Elsewhere)


class ElsewhereBackend:
    name = "elsewhere"

    def owns(self, array: object) -> bool:
        return type(array) is Elsewhere

    def available(self) -> tuple[bool, str]:
        return True, ""

    def device_of(self, array: object) -> str:
        return "elsewhere"

    def asarray(self, obj: object, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(obj, dtype=dtype).view(Elsewhere)

    def to_host(self, array: Any) -> Any:
        return np.array(array)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(select, "BACKENDS", (ElsewhereBackend(), *select.BACKENDS))
    return "elsewhere"


def test_the_gradient_of_a_move_comes_back(elsewhere: str) -> None:
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(elsewhere)
    assert (y.device, y.requires_grad) == ("elsewhere", True)
    z = y * y
    assert z.device == "elsewhere"
    z.to("cpu").sum().backward()
    assert x.grad is not None
    assert (type(x.grad.data), x.grad.tolist()) == (np.ndarray, [2.0, 4.0])
    (first,) = grad((x.to(elsewhere).to("cpu") ** 3).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_inputs_on_two_devices_are_refused_by_name(elsewhere: str) -> None:
    x, y = sw.tensor([1.0]), sw.tensor([1.0]).to(elsewhere)
    with pytest.raises(DeviceError) as caught:
        y + x
    assert str(caught.value) == (
        "Add cannot take inputs on different devices (elsewhere, cpu); move them to one with to()"
    )


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match="cannot use device 'cuda"):
        sw.tensor([1.0]).to("cuda:7")
    x = sw.tensor([1.0])
    assert x.to("cpu") is x
    assert isinstance(x.to("shape"), Tensor)
