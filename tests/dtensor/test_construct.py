"""DTensors from wholes and from parts, against plain slices of the whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import AutogradError, LayoutError
from shardwise.collectives import explain, run_threads
from shardwise.dtensor import DTensor, Layout, Partial, Replicate, Shard, Spec, distribute_tensor, from_local
from shardwise.mesh import DeviceMesh

GRID: list[Any] = [
    ["R", "R"],
    ["S(0)", "R"],
    ["R", "S(1)"],
    ["S(0)", "S(0)"],
    ["S(1)", "S(0)"],
    ["P", "S(1)"],
    ["P(avg)", "P"],
    ["P(max)", "S(0)"],
    Spec(("b", "a")),
    Spec(None, ("b", "a")),
    [Shard(0, (1, 4)), "R"],
    [Shard(1, (2, 0, 1, 4)), Shard(1, (2, 0, 1, 4))],
]


def on_grid(body: Callable[[int, DeviceMesh], Any]) -> list[Any]:
    return run_threads(lambda rank: body(rank, DeviceMesh("cpu", [[0, 1], [2, 3]], ("a", "b"))), 4)


@pytest.mark.parametrize("placements", GRID, ids=str)
@pytest.mark.parametrize("source", [0, 1, None])
def test_a_whole_is_distributed(placements: Any, source: int | None) -> None:
    whole = np.arange(35.0).reshape(5, 7)

    def body(rank: int, mesh: DeviceMesh) -> None:
        mine = whole if source is None or rank == 3 * source else np.full_like(whole, -1.0)
        x = distribute_tensor(mine, mesh, placements, src_data_rank=source)
        here = mesh.get_coordinate()
        assert here is not None
        assert x.to_local().shape == x.layout.local_shape(here)
        if not x.layout.partial:
            np.testing.assert_array_equal(x.to_local().numpy(), whole[x.layout.box(here).slices])
        np.testing.assert_array_equal(x.full_tensor().numpy(), whole)

    on_grid(body)


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7])
def test_uneven_and_empty_parts(width: int, n: int) -> None:
    whole = np.arange(2.0 * n).reshape(n, 2)

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", list(range(width)))
        x = distribute_tensor(whole if rank == 0 else whole * 0, mesh, ["S(0)"])
        np.testing.assert_array_equal(x.full_tensor().numpy(), whole)
        again = DTensor.from_local(x.to_local(), mesh, ["S(0)"])
        assert again.layout is x.layout

    run_threads(body, width)


def test_nobody_gets_more_than_its_part() -> None:
    def body(rank: int, mesh: DeviceMesh) -> int:
        x = np.zeros((8, 8), np.float32)
        with explain() as told:
            distribute_tensor(x, mesh, ["R", "S(0)"])
        return told.total_bytes()

    assert max(on_grid(body)) <= 8 * 8 * 4


def test_a_leaf_stays_a_leaf_and_a_parameter_a_parameter() -> None:
    def body(rank: int, mesh: DeviceMesh) -> None:
        x = distribute_tensor(sw.ones(4, requires_grad=True), mesh, ["S(0)", "R"])
        assert x.is_leaf
        assert x.requires_grad
        w = distribute_tensor(nn.Parameter(sw.ones(4, 3)), mesh, ["S(0)", "R"])
        assert isinstance(w, nn.Parameter)
        assert isinstance(w, DTensor)
        assert distribute_tensor(w, mesh, ["S(0)", "R"]) is w
        frozen = nn.Parameter(w.detach(), requires_grad=False)
        assert not frozen.requires_grad
        assert isinstance(frozen, DTensor)
        twin = copy.deepcopy(w)
        assert type(twin) is type(w)
        with sw.no_grad():
            twin.add_(1.0)
        assert w.full_tensor().sum().item() == 12.0
        assert twin.full_tensor().sum().item() == 24.0

    on_grid(body)


def test_modules_hold_sharded_parameters() -> None:
    whole = nn.Linear(3, 4)
    weight, bias = whole.weight.detach().numpy(), whole.bias.detach().numpy()
    values = np.linspace(-1, 1, 18).reshape(6, 3).astype(np.float32)
    whole(sw.tensor(values)).square().sum().backward()
    slopes = whole.weight.grad.numpy()

    def body(rank: int, mesh: DeviceMesh) -> None:
        layer = nn.Linear(3, 4)
        layer.weight = distribute_tensor(nn.Parameter(sw.tensor(weight)), mesh, ["S(0)", "R"])
        layer.bias = distribute_tensor(nn.Parameter(sw.tensor(bias)), mesh, ["R", "R"])
        assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
        layer(distribute_tensor(values, mesh, ["R", "S(0)"])).square().sum().backward()
        assert layer.weight.grad.layout is layer.weight.layout  # type: ignore[attr-defined]
        np.testing.assert_allclose(layer.weight.grad.full_tensor().numpy(), slopes, rtol=1e-5)  # type: ignore[attr-defined]
        state = layer.state_dict()
        other = copy.deepcopy(layer)
        with sw.no_grad():
            other.weight.zero_()
        other.load_state_dict(state)
        np.testing.assert_array_equal(np.asarray(other.weight.detach()), weight)
        other.load_state_dict({"weight": weight + 1, "bias": bias})  # wholes, of which each takes its part
        np.testing.assert_array_equal(np.asarray(other.weight.detach()), weight + 1)
        other.load_state_dict(state, assign=True)
        assert isinstance(other.weight, DTensor)
        assert other.requires_grad_(False).weight.requires_grad is False
        assert "DTensor" in repr(layer.weight)

    on_grid(body)


def test_parts_say_their_sizes() -> None:
    def body(rank: int) -> tuple[Any, ...]:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        uneven = from_local(np.full((rank, 2), rank, np.int64), mesh, ["S(0)"])
        other = from_local(np.ones((2, rank + 1)), mesh, [Shard(-1)])
        with pytest.raises(LayoutError, match=r"^from_local: the parts do not make a whole"):
            from_local(np.ones((1, rank)), mesh, ["S(0)"])
        return uneven.placements, uneven.full_tensor().tolist(), other.shape

    placements, values, shape = run_threads(body, 3)[0]
    assert placements == (Shard(0, (0, 1, 2)),)
    assert values == [[1, 1], [2, 2], [2, 2]]
    assert shape == (2, 6)


def test_parts_of_a_grid_say_their_sizes() -> None:
    whole = np.arange(7 * 5.0).reshape(7, 5)

    def body(rank: int, mesh: DeviceMesh) -> None:
        for placements in (["S(0)", "S(0)"], ["S(0)", "S(1)"], Spec(("b", "a")), ["S(1)", "R"]):
            x = distribute_tensor(whole, mesh, placements, src_data_rank=None)
            y = from_local(x.to_local(), mesh, placements, run_check=True)
            assert y.layout is x.layout

    on_grid(body)


def test_a_given_shape_sends_nothing() -> None:
    def body(rank: int) -> int:
        mesh = DeviceMesh("cpu", [0, 1])
        with explain() as told:
            x = from_local(np.ones(2 - rank), mesh, ["S(0)"], shape=(3,))
        assert x.shape == (3,)
        return len(told)

    assert run_threads(body, 2) == [0, 0]


def test_gradients_of_parts() -> None:
    def body(rank: int) -> list[Any]:
        mesh = DeviceMesh("cpu", [0, 1])
        part = sw.tensor(np.arange(2.0) + rank, requires_grad=True)
        (from_local(part, mesh, ["P"]) * sw.tensor(2.0)).sum().backward()
        term = sw.tensor(np.arange(2.0) + rank, requires_grad=True)
        copy_ = from_local(term, mesh, ["R"], grad_placements=["P"])
        (copy_ * from_local(np.full(2, rank + 1.0), mesh, ["P"])).sum().backward()
        return [part.grad.tolist(), term.grad.tolist()]  # type: ignore[union-attr]

    first, second = run_threads(body, 2)
    assert first[0] == second[0] == [2.0, 2.0]
    np.testing.assert_allclose(np.add(first[1], second[1]), [3.0, 3.0])


def test_gradients_that_parts_get_as_terms() -> None:
    def body(rank: int) -> Any:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(sw.ones(3, requires_grad=True), mesh, ["R"])
        (x.to_local(grad_placements=[Partial()]) * float(rank + 1)).sum().backward()
        y = distribute_tensor(sw.ones(3, requires_grad=True), mesh, ["S(0)"])
        (y.full_tensor(grad_placements=["P"]) * float(rank + 1)).sum().backward()
        return x.grad.full_tensor().tolist(), y.grad.full_tensor().tolist()

    assert run_threads(body, 2) == [([3.0] * 3, [3.0] * 3)] * 2


def test_replicas_are_compared() -> None:
    def body(rank: int, mesh: DeviceMesh) -> None:
        from_local(np.ones(2), mesh, ["R", "S(0)"], run_check=True)
        with pytest.raises(LayoutError) as raised:
            from_local(np.full(2, float(rank == 3)), mesh, ["R", "S(0)"], run_check=True)
        assert str(raised.value) == (
            "check_replicas: the replicas of a tensor of shape (4,) as R S(0) on DeviceMesh('cpu', a=2, b=2) "
            "differ: rank 3 at (1, 1) holds other values than rank 1 at (0, 1). Were they made from the same "
            "values, with the same seed? If these are terms of a sum, say Partial()"
        )

    on_grid(body)


def test_what_is_refused() -> None:
    def body(rank: int, mesh: DeviceMesh) -> None:
        x = distribute_tensor(np.ones(4), mesh, ["S(0)", "R"])
        with pytest.raises(
            LayoutError, match=r"is distributed already.*call redistribute\(mesh, placements\)"
        ):
            distribute_tensor(x, mesh, ["R", "R"])
        with pytest.raises(LayoutError, match=r"a tensor without dims has none"):
            distribute_tensor(np.float64(1.0), mesh, ["S(0)", "R"])
        with pytest.raises(AutogradError, match=r"^distribute_tensor: the tensor is the result of an op"):
            distribute_tensor(sw.ones(2, requires_grad=True) * 2, mesh)
        with pytest.raises(LayoutError, match=r"src_data_rank is a coordinate .* 0 to 1, or None; got 2"):
            distribute_tensor(np.ones(4), mesh, src_data_rank=2)
        with pytest.raises(LayoutError, match=r"^distribute_tensor: wanted a DeviceMesh, and none is given"):
            distribute_tensor(np.ones(4))
        with pytest.raises(LayoutError, match=r"needs as many placements, got 1"):
            distribute_tensor(np.ones(4), mesh, ["R"])
        with pytest.raises(LayoutError, match=r"^from_local: this is a DTensor already"):
            from_local(x, mesh, ["R", "R"])
        with pytest.raises(LayoutError, match=r"cannot be .* at once"):
            from_local(np.ones(2), mesh, ["P", "P(max)"])
        with pytest.raises(LayoutError, match=r"should be \(2, 1\)\. Leave shape= away"):
            from_local(np.ones((2, 2)), mesh, ["S(0)", "S(1)"], shape=(4, 2))
        with pytest.raises(LayoutError, match=r"a DTensor is not pickled"):
            pickle.dumps(x)
        with pytest.raises(LayoutError, match=r"^cannot write an array of shape \(4,\) into a DTensor"):
            x.copy_(np.zeros(4))

    on_grid(body)


def test_the_mesh_of_the_context() -> None:
    def body(rank: int, mesh: DeviceMesh) -> None:
        with mesh:
            assert distribute_tensor(np.ones(4), placements=["S(0)", "R"]).device_mesh == mesh
            assert from_local(np.ones(4)).placements == (Replicate(), Replicate())

    on_grid(body)


def test_async_redistribution_waits_at_first_use() -> None:
    whole = np.arange(24.0).reshape(6, 4)

    def body(rank: int, mesh: DeviceMesh) -> None:
        x = distribute_tensor(sw.tensor(whole, requires_grad=True), mesh, ["S(0)", "S(0)"])
        later = [
            x.redistribute(placements=p, async_op=True) for p in (["R", "R"], ["S(1)", "R"], ["R", "S(0)"])
        ]
        assert [y.shape for y in later] == [(6, 4)] * 3
        assert later[0].layout is Layout(mesh, ["R", "R"], (6, 4), whole.dtype)
        total = (later[0] * 2 + later[1]).sum() + later[2].sum()
        total.backward()
        assert total.item() == 4 * whole.sum()
        assert x.grad.full_tensor().tolist() == np.full((6, 4), 4.0).tolist()

    on_grid(body)
