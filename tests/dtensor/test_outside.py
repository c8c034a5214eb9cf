"""Ranks outside of the mesh run the same program, and hold nothing."""

from __future__ import annotations

from typing import Any

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


def test_regions_are_skipped_outside() -> None:
    """Scans, losses and convolutions of parts, and their gradients of gradients."""
    whole = np.sin(np.arange(12.0)).reshape(2, 1, 6)

    def losses(x: Any, kernel: Any, labels: Any) -> list[Any]:
        flat = x.reshape(2, 6)
        return [
            (flat.cumsum(1) ** 2).sum(),
            flat.logcumsumexp(1).sum(),
            (flat.cummax(1)[0] ** 3).sum(),
            F.cross_entropy(flat, labels),
            (F.conv1d(x, kernel, padding=1) ** 2).sum(),
            (F.avg_pool1d(x, 2) ** 2).sum(),
        ]

    def slopes(x: Any, kernel: Any, labels: Any) -> list[Any]:
        found = []
        for loss in losses(x, kernel, labels):
            (slope,) = sw.grad(loss, [x], create_graph=True)
            found += [slope, *sw.grad((slope * slope).sum(), [x])]
        return found

    kernel, labels = np.ones((1, 1, 3)), np.array([0, 5])
    plain = slopes(sw.tensor(whole, requires_grad=True), sw.tensor(kernel), sw.tensor(labels))
    wanted = [each.detach().numpy() for each in plain]

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [2, 0])
        x = distribute_tensor(sw.tensor(whole, requires_grad=True), mesh, ["S(2)"])
        got = slopes(x, distribute_tensor(kernel, mesh, ["R"]), distribute_tensor(labels, mesh, ["R"]))
        assert len(got) == len(wanted)
        for each, value in zip(got, wanted, strict=True):
            assert each.shape == value.shape
            if mesh.get_coordinate() is not None:
                np.testing.assert_allclose(each.full_tensor().detach().numpy(), value, atol=1e-10)

    run_threads(body, 3)
