"""New DTensors are what the roof's functions make, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import dtensor
from shardwise.backend.errors import LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor
from shardwise.mesh import DeviceMesh

MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": lambda of, **on: of.zeros(5, 7, **on),
    "ones": lambda of, **on: of.ones((5, 7), dtype=np.float64, **on),
    "full": lambda of, **on: of.full((5, 7), 2.5, **on),
    "rand": lambda of, **on: of.rand(5, 7, **on),
    "rand complex": lambda of, **on: of.rand(5, 7, dtype=np.complex128, **on),
    "randn": lambda of, **on: of.randn(5, 7, dtype=np.float64, **on),
    "randint": lambda of, **on: of.randint(-3, 9, (5, 7), **on),
    "randint below": lambda of, **on: of.randint(9, (5, 7), **on),
}
RANGES: list[tuple[float, ...]] = [(9,), (2, 9), (9, -2, -3), (0.5, 3.2, 0.3), (3, 3), (0, 1, 0.1)]


def each_layout(body: Callable[[DeviceMesh, list[str]], None]) -> None:
    def run(rank: int) -> None:
        for placements in (["R"], ["S(0)"], ["S(1)"]):
            body(DeviceMesh("cpu", [0, 1, 2]), placements)
        for placements in (["S(0)", "S(0)"], ["S(1)", "S(0)"]):
            body(DeviceMesh("cpu", [[0, 1], [2, 3]]), placements)

    run_threads(run, 4)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_values_are_those_of_the_roof(name: str) -> None:
    make = MAKERS[name]
    sw.manual_seed(3)
    wanted = make(sw).numpy()

    def body(mesh: DeviceMesh, placements: list[str]) -> None:
        sw.manual_seed(3)
        x = make(dtensor, device_mesh=mesh, placements=placements)
        assert isinstance(x, DTensor)
        assert x.dtype == wanted.dtype
        here = mesh.get_coordinate()
        assert x.to_local().shape == x.layout.local_shape(here)
        if here is not None:
            np.testing.assert_array_equal(x.full_tensor().numpy(), wanted)

    each_layout(body)


@pytest.mark.parametrize("bounds", RANGES)
def test_ranges(bounds: tuple[float, ...]) -> None:
    wanted = sw.arange(*bounds).numpy()

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = dtensor.arange(*bounds, mesh=mesh, placements=["S(0)"])
        np.testing.assert_array_equal(x.full_tensor().numpy(), wanted)
        assert x.dtype == wanted.dtype

    run_threads(body, 3)


def test_likes_and_new_ones() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        with mesh:
            x = dtensor.ones(5, 3, dtype=np.float64, placements=["S(0)"], requires_grad=True)
            assert x.is_leaf
            assert x.requires_grad
            assert dtensor.empty(4).placements == x.new_zeros(4).placements
        assert sw.zeros_like(x).layout is x.layout
        assert sw.full_like(x, 3.0).full_tensor().tolist() == np.full((5, 3), 3.0).tolist()
        assert x.new_ones(2, 2).full_tensor().tolist() == [[1.0, 1.0]] * 2
        assert x.new_tensor([1, 2]).dtype == np.float64
        with pytest.raises(
            LayoutError, match=r"^zeros: a new tensor has no terms|^full: a new tensor has no"
        ):
            dtensor.zeros(4, mesh=mesh, placements=["P"])
        with pytest.raises(LayoutError, match=r"^rand: wanted a DeviceMesh, and none is given"):
            dtensor.rand(4)

    run_threads(body, 2)
