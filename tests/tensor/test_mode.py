"""no_grad and friends, anomaly mode, doors."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.errors import AnomalyError
from shardwise.tensor import intercept


def test_no_grad_nests_and_decorates() -> None:
    x = sw.tensor([1.0], requires_grad=True)
    with sw.no_grad():
        assert not sw.is_grad_enabled()
        with sw.enable_grad():
            assert (x * 2.0).requires_grad
        assert not (x * 2.0).requires_grad
    assert sw.is_grad_enabled()

    @sw.no_grad()
    def double(t: sw.Tensor) -> sw.Tensor:
        return t * 2.0

    assert not double(x).requires_grad
    assert not double(x).requires_grad  # the decorator can be used again
    with sw.set_grad_enabled(False):
        assert not sw.is_grad_enabled()
    with pytest.raises(ValueError, match="boom"), sw.no_grad():
        raise ValueError("boom")
    assert sw.is_grad_enabled()


def test_switches_work_as_in_pytorch() -> None:
    x = sw.tensor([1.0], requires_grad=True)

    @sw.no_grad
    def double(t: sw.Tensor) -> sw.Tensor:
        return t * 2.0

    @sw.set_grad_enabled(True)
    def triple(t: sw.Tensor) -> sw.Tensor:
        return t * 3.0

    assert not double(x).requires_grad
    sw.set_grad_enabled(False)
    assert not (x * 2.0).requires_grad
    assert triple(x).requires_grad
    assert not sw.is_grad_enabled()
    sw.set_grad_enabled(True)
    assert sw.is_grad_enabled()
    with sw.no_grad():

        @sw.enable_grad
        def halve(t: sw.Tensor) -> sw.Tensor:
            return t / 2.0

        assert halve(x).requires_grad


def test_the_mode_belongs_to_the_context() -> None:
    seen = {}
    with sw.no_grad():
        thread = threading.Thread(target=lambda: seen.update(new=sw.is_grad_enabled()))
        thread.start()
        thread.join()
        copied = copy_context()
    seen["copied"] = copied.run(sw.is_grad_enabled)
    assert seen == {"new": True, "copied": False}


def test_anomaly_mode_names_the_first_nan_forward() -> None:
    x = sw.tensor([-1.0], requires_grad=True)
    with (
        np.errstate(invalid="ignore"),
        sw.detect_anomaly(),
        pytest.raises(AnomalyError, match=r"Log at .*test_mode\.py:\d+ made the first NaN"),
    ):
        x.log()


def test_anomaly_mode_names_the_first_nan_backward() -> None:
    x = sw.tensor([0.0], requires_grad=True)
    with np.errstate(all="ignore"), sw.detect_anomaly():
        y = (x * 0.0).sqrt() * 0.0  # 0 / 0 in the gradient of sqrt
        with pytest.raises(
            AnomalyError,
            match=r"backward of Sqrt \(.*test_mode\.py:\d+\) gave NaN in the gradient of its input 0",
        ):
            y.backward()


def test_doors_see_every_op_and_may_change_it() -> None:
    seen: list[str] = []

    def record(function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        seen.append(function.__name__)
        return function.apply(*args, **params)

    def double(function: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return function.apply(*args, **params) * 2.0  # the ops of a door go to the outer doors only

    x = sw.tensor([3.0])
    with intercept(record), intercept(double):
        y = x + 1.0
    assert y.item() == 8.0
    assert seen == ["Add", "Mul"]
    assert (x + 1.0).item() == 4.0
