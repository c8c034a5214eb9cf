"""Ranks outside of the mesh run the same program, and hold nothing."""

from __future__ import annotations

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import DataDependentShapeError, LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, distribute_tensor, local_map, ones, rand
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


@pytest.mark.parametrize("ranks", [[0, 1], [1, 3], [0, 2, 3]])
def test_a_training_step_in_a_larger_world(ranks: list[int]) -> None:
    values = np.linspace(-1, 1, 15).reshape(5, 3)
    weight = np.linspace(0, 1, 12).reshape(4, 3)
    x, w = sw.tensor(values), sw.tensor(weight, requires_grad=True)
    loss = F.linear(x, w).softmax(-1).square().sum()
    loss.backward()
    slopes = w.grad.numpy()  # type: ignore[union-attr]

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", ranks)
        x = distribute_tensor(values, mesh, ["S(0)"])
        w = distribute_tensor(nn.Parameter(sw.tensor(weight)), mesh, ["S(0)"])
        out = F.linear(x, w).softmax(-1)
        assert out.shape == (5, 4)
        total = out.square().sum()
        total.backward()
        sw.optim.SGD([w], lr=0.1).step()
        a, b = out.chunk(2, -1)
        (a * b).max(0)
        again = out.redistribute(placements=["S(1)"], async_op=True) + 1
        assert again.shape == (5, 4)
        assert "DTensor" in repr(out)
        if rank in ranks:
            assert total.item() == pytest.approx(loss.item())
            np.testing.assert_allclose(w.grad.full_tensor().numpy(), slopes, rtol=1e-10)
            return
        assert out.to_local().shape == w.grad.to_local().shape == (0,)
        for read in (out.full_tensor, total.item, out.tolist, lambda: bool(total), out.detach().numpy):
            with pytest.raises(LayoutError, match=rf"rank {rank} is not in .* as in `if mesh\.get_coord"):
                read()

    run_threads(body, 4)


def test_new_tensors_and_maps_outside() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [1, 2])
        x = ones(5, 2, mesh=mesh, placements=["S(0)"]) + rand(5, 2, mesh=mesh)
        y = DTensor.from_local(np.ones(2), mesh, ["S(0)"])
        assert y.shape == (4,)
        mapped = local_map(lambda part: part * 2, ["S(0)"])(x)
        assert (mapped is None) == (rank not in (1, 2))
        if rank not in (1, 2):
            with pytest.raises(
                DataDependentShapeError, match=rf"rank {rank} is not in the mesh and has none"
            ):
                x.nonzero()

    run_threads(body, 4)


def test_values_come_from_one_mesh_to_another() -> None:
    whole = np.arange(12.0).reshape(6, 2)

    def body(rank: int) -> None:
        x = distribute_tensor(whole, DeviceMesh("cpu", [0, 1]), ["S(0)"])
        there = DeviceMesh("cpu", [2, 3])
        y = x.redistribute(there, ["S(1)"]) * 2
        if rank >= 2:
            np.testing.assert_array_equal(y.full_tensor().numpy(), 2 * whole)

    run_threads(body, 4)
