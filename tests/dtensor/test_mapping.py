"""Functions of parts, and modules of DTensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import ArgumentError, LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, Partial, distribute_module, distribute_tensor, local_map
from shardwise.mesh import DeviceMesh


def test_uneven_parts_have_the_right_whole() -> None:
    whole = np.arange(14.0).reshape(7, 2)

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = distribute_tensor(sw.tensor(whole, requires_grad=True), mesh, ["S(0)"])
        kept = local_map(lambda part: part[1:], ["S(0)"], in_placements=(["S(0)"],))(x)
        wanted = whole[[1, 2, 4, 5]]  # parts of 3, 3, 1
        assert kept.shape == wanted.shape
        np.testing.assert_array_equal(kept.detach().full_tensor().numpy(), wanted)
        kept.sum().backward()
        slopes = np.zeros_like(whole)
        slopes[[1, 2, 4, 5]] = 1.0
        np.testing.assert_array_equal(x.grad.full_tensor().numpy(), slopes)

    run_threads(body, 3)


def test_products_of_parts_are_terms() -> None:
    a, b = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x, y = distribute_tensor(a, mesh, ["R"]), distribute_tensor(b, mesh, ["S(0)"])
        pair = local_map(
            lambda x, y, scale: ((x @ y) * scale, 7),
            ([Partial()], None),
            (["S(1)"], ["S(0)"], None),
            redistribute_inputs=True,
        )
        product, seven = pair(x, y, 2.0)
        assert seven == 7
        np.testing.assert_allclose(product.full_tensor().numpy(), 2.0 * a @ b)

    run_threads(body, 2)


def test_what_local_map_refuses() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(np.ones(4), mesh, ["S(0)"])
        with pytest.raises(LayoutError, match=r"^local_map: argument 0 is Layout.*redistribute_inputs=True$"):
            local_map(lambda x: x, ["R"], (["R"],))(x)
        with pytest.raises(ArgumentError, match=r"^local_map: in_placements tells of 2 arguments, got 1$"):
            local_map(lambda x: x, ["R"], (["R"], None))(x)
        with pytest.raises(LayoutError, match=r"tell of 1 results, and the function gave 2$"):
            local_map(lambda x: (x, x), ["S(0)"])(x)
        with pytest.raises(LayoutError, match=r"^local_map: wanted a DeviceMesh"):
            local_map(lambda x: x, ["S(0)"])(np.ones(3))

    run_threads(body, 2)


def test_gradients_of_replicas_used_unlike() -> None:
    def body(rank: int) -> Any:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(sw.ones(2, requires_grad=True), mesh, ["R"])
        scaled = local_map(lambda x: x * float(rank + 1), ["P"], in_grad_placements=(["P"],))
        scaled(x).sum().backward()
        return x.grad.full_tensor().tolist()

    assert run_threads(body, 2) == [[3.0, 3.0]] * 2


def test_a_module_is_distributed() -> None:
    sw.manual_seed(1)
    whole = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.BatchNorm1d(2))
    whole.eval()
    values = np.linspace(-1, 1, 20).reshape(5, 4).astype(np.float32)
    wanted = whole(sw.tensor(values)).detach().numpy()

    def split(path: str, part: nn.Module, mesh: DeviceMesh) -> None:
        if path == "0":
            part.weight = distribute_tensor(part.weight, mesh, ["S(0)"])
            part.bias = distribute_tensor(part.bias, mesh, ["S(0)"])

    def body(rank: int) -> None:
        sw.manual_seed(1 + rank)  # rank 0 has the values
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.BatchNorm1d(2))
        model.eval()
        mesh = DeviceMesh("cpu", [0, 1])
        same = distribute_module(
            model,
            mesh,
            split,
            lambda module, inputs, mesh: (distribute_tensor(inputs[0], mesh, ["R"]),),
            lambda module, outputs, mesh: outputs.full_tensor(),
        )
        assert same is model
        assert all(isinstance(p, DTensor) and isinstance(p, nn.Parameter) for p in model.parameters())
        assert all(isinstance(b, DTensor) for b in model.buffers())
        assert str(model[0].weight.placements[0]) == "S(0)"
        np.testing.assert_allclose(model(sw.tensor(values)).detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
        with pytest.raises(LayoutError, match=r"^distribute_module: this module was distributed already"):
            distribute_module(model, mesh)

    run_threads(body, 2)
