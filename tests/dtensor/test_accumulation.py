"""Gradients that leaves keep: in memory of their own, whatever layout they came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor
from shardwise.mesh import DeviceMesh


@pytest.mark.parametrize("placements", [["R"], ["S(0)"], ["S(1)"]])
def test_a_second_backward_adds_to_what_came_broadcast(placements: list[str]) -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = distribute_tensor(sw.tensor(np.ones((4, 3))), mesh, placements).requires_grad_()
        loss = x.redistribute(mesh, ["R"]).mean()
        loss.backward(retain_graph=True)
        loss.backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full((4, 3), 2 / 12))
        x.grad.add_(1)
        np.testing.assert_allclose(x.grad.numpy(), np.full((4, 3), 1 + 2 / 12))

    run_threads(body, 3)


def test_leaves_that_got_one_gradient_do_not_share_its_memory() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x, y = (distribute_tensor(sw.tensor(np.ones(4)), mesh, ["S(0)"]).requires_grad_() for _ in range(2))
        total = x.redistribute(mesh, ["R"]) + y.redistribute(mesh, ["R"])
        total.backward(distribute_tensor(np.arange(4.0), mesh, ["R"]))
        x.grad.mul_(10)
        np.testing.assert_array_equal(x.grad.numpy(), 10 * np.arange(4.0))
        np.testing.assert_array_equal(y.grad.numpy(), np.arange(4.0))

    run_threads(body, 2)


@pytest.mark.parametrize("dtype", [sw.float16, sw.bfloat16])
def test_gradients_of_narrow_floats_are_computed_wide_as_those_of_tensors_are(dtype: np.dtype[Any]) -> None:
    whole = np.linspace(-3, 3, 12).reshape(4, 3)

    def gradient(x: Any) -> Any:
        x.requires_grad_()
        (x.logsumexp(0).sum() + (x.softmax(1) * x).sum() + x.std(0).sum()).backward()
        return x.grad.numpy().astype(np.float64)

    wanted = gradient(sw.tensor(whole).to(dtype))

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        for placements in (["R"], ["S(0)"], ["S(1)"]):
            x = distribute_tensor(sw.tensor(whole).to(dtype), mesh, placements)
            np.testing.assert_allclose(gradient(x), wanted, atol=0.05 if dtype == sw.bfloat16 else 0.01)

    run_threads(body, 3)
