"""Parameters that lie over ranks: still parameters, and still DTensors."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, distribute_tensor
from shardwise.mesh import DeviceMesh


def sharded_linear(ranks: int) -> nn.Linear:
    mesh = DeviceMesh("cpu", list(range(ranks)))
    sw.manual_seed(0)
    linear = nn.Linear(6, 5)
    linear.weight = distribute_tensor(linear.weight, mesh, ["S(0)"])
    linear.bias = nn.Parameter(distribute_tensor(linear.bias.detach(), mesh, ["S(0)"]))
    return linear


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_module_holds_sharded_parameters(ranks: int) -> None:
    def body(_: int) -> None:
        linear = sharded_linear(ranks)
        for p in linear.parameters():
            assert isinstance(p, nn.Parameter)
            assert isinstance(p, DTensor)
            assert p.requires_grad
            assert str(p.layout) == "S(0)"
            assert repr(p).startswith("Parameter(DTensor(")
        x = distribute_tensor(sw.ones(3, 6), linear.weight.device_mesh, ["R"])
        linear(x).sum().backward()
        assert linear.weight.grad.layout is linear.weight.layout
        np.testing.assert_array_equal(linear.weight.grad.numpy(), np.full((5, 6), 3.0, np.float32))
        other = copy.deepcopy(linear)
        assert type(other.weight) is type(linear.weight)
        with sw.no_grad():
            other.weight.mul_(0.0)
        other.load_state_dict(linear.state_dict())
        np.testing.assert_array_equal(other.weight.detach().numpy(), linear.weight.detach().numpy())
        assert linear.to("float64").weight.layout.dtype == np.float64

    run_threads(body, ranks)


def test_a_plain_parameter_first_and_a_sharded_tensor_are_refused() -> None:
    def body(_: int) -> None:
        index = distribute_tensor(sw.tensor([1, 2, 3]), DeviceMesh("cpu", [0, 1]), ["R"])
        with pytest.raises(LayoutError, match=r"^Embedding: input 0 is a Tensor of shape \(6, 4\), and"):
            nn.Embedding(6, 4)(index)

    run_threads(body, 2)
