"""Running results along sharded dims against those of whole tensors; what they send."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor
from shardwise.mesh import DeviceMesh

OPS: dict[str, Any] = {
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: (x * 0.3).cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", OPS)
def test_scans(name: str, world: int) -> None:
    for n in sizes(world):
        compare(OPS[name], numbers(n, 3), world=world)


@pytest.mark.parametrize("name", OPS)
def test_corners(name: str) -> None:
    ties = np.round(np.cos(np.arange(21) * 2.1)).reshape(7, 3)
    compare(OPS[name], ties, world=3, partial=False)
    compare(lambda x: OPS[name](x.detach()), np.zeros((7, 2)), world=4, partial=False)
    if name.startswith("cumm"):
        ties[2, 1] = ties[5, 1] = math.nan
        compare(lambda x: OPS[name](x.detach()), ties, world=3, partial=False)
    if name == "logcumsumexp":
        ties[0:4] = -math.inf
        compare(OPS[name], ties, world=3, partial=False)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32])
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_kinds_of_numbers(name: str, kind: type) -> None:
    compare(lambda x: OPS[name](x.detach()), np.arange(21).reshape(7, 3).astype(kind), world=4, partial=False)


def test_scans_stay_in_parts_and_send_a_row_per_rank() -> None:
    x = numbers(3000, 4) * 1e-4
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax"):
        sent, laid = moved(OPS[name], [x], ["S(0)"], 3)
        assert set(laid) == {"S(0)"}, name
        assert sent <= 4 * 4 * 32, name


def test_gradients_of_gradients() -> None:
    array = numbers(7, 2) * 0.1

    def second(x: Any) -> Any:
        (g,) = sw.autograd.grad((x.cumprod(0) ** 2).sum(), [x], create_graph=True)
        (gg,) = sw.autograd.grad((g * g).sum(), [x])
        return gg

    def go(rank: int) -> Any:
        x = distribute_tensor(sw.tensor(array), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
        x.requires_grad = True
        return second(x).full_tensor().numpy()

    whole = second(sw.tensor(array, requires_grad=True)).numpy()
    for got in run_threads(go, 3):
        np.testing.assert_allclose(got, whole, rtol=1e-9, atol=1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_scans_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    placed = (
        data.draw(st.sampled_from(["R", "S(0)", "S(1)"])),
        data.draw(st.sampled_from(["R", "S(0)", "S(1)", "P"])),
    )
    compare_on(OPS[data.draw(st.sampled_from(sorted(OPS)))], [numbers(*shape) * 0.5], (2, 2), [placed])
