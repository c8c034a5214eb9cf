"""Partial tensors through pointwise ops and reductions: only where it is true, and without sending."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor, from_local
from shardwise.mesh import DeviceMesh
from shardwise.tensor import ops
from shardwise.tensor.function import Function

LINEAR: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add a number": lambda x, y: x + 2.5,
    "add to a number": lambda x, y: 1.5 - x,
    "subtract": lambda x, y: x - y,
    "negate": lambda x, y: -x,
    "scale": lambda x, y: x * 3.0,
    "divide": lambda x, y: x / 3.0,
    "multiply": lambda x, y: x * y,
    "mask": lambda x, y: x.masked_fill(sw.tensor([True, False, True]), 0.5),
    "clone": lambda x, y: x.clone(),
    "lerp": lambda x, y: sw.lerp(x, y, 0.3),
    "addcmul": lambda x, y: sw.addcmul(x, x, y, value=0.5),
    "deg2rad": lambda x, y: sw.deg2rad(x),
    "sum": lambda x, y: x.sum(0) + 1,
    "mean": lambda x, y: x.mean(),
    "cumsum": lambda x, y: x.cumsum(1),
    "square": lambda x, y: x * x,
    "abs": lambda x, y: x.abs() + x.exp(),
    "two numbers": lambda x, y: (x + 1.0) * 2.0 - 3.0,
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", LINEAR)
def test_sums(name: str, world: int) -> None:
    for n in sizes(world):
        compare(LINEAR[name], numbers(n, 3), numbers(n, 3, seed=1), world=world)


def test_what_sends_nothing() -> None:
    x, y = numbers(4, 3), numbers(4, 3, seed=1)
    for name in LINEAR:
        if name not in ("square", "abs"):
            with sw.dtensor.implicit_replication():
                sent, laid = moved(LINEAR[name], [x, y], ["P", "R"], 3)
            assert (sent, laid) == (0, ["P"]), name
    assert moved(lambda x, y: x + y, [x, y], ["P", "P"], 3) == (0, ["P"])
    assert moved(lambda x, y: x * y, [x, y], ["P", "P"], 3)[1] == ["P"]


MONOTONE: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "sigmoid": lambda x: x.sigmoid(),
    "tanh": lambda x: x.tanh(),
    "relu": lambda x: x.relu(),
    "negate": lambda x: -x,
    "floor": lambda x: x.floor(),
    "erfc": lambda x: x.erfc(),
    "amax": lambda x: x.amax(0),
    "maximum": lambda x: sw.maximum(x, sw.tensor(0.3, dtype=np.float64)),
    "amin": lambda x: x.amin(0),
    "abs": lambda x: x.abs(),
    "square": lambda x: x * x,
    "log": lambda x: x.log(),
    "sum": lambda x: x.sum(1),
    "clip": lambda x: x.clip(-0.5, 0.5),
    "norm": lambda x: x.norm(float("inf")),
    "add": lambda x: x + 2.0,
    "scale": lambda x: x * -2.0,
    "sqrt": lambda x: x.sqrt(),
    "sign": lambda x: x.sign(),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # logarithms of negative terms that are no maxima
@pytest.mark.parametrize("op", ["max", "min", "avg", "prod"])
@pytest.mark.parametrize("name", MONOTONE)
def test_other_terms(name: str, op: str) -> None:
    terms = np.stack([numbers(4, 3, seed=s) for s in range(3)])
    whole = {"max": terms.max(0), "min": terms.min(0), "avg": terms.mean(0), "prod": terms.prod(0)}[op]

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = from_local(sw.tensor(terms[rank]), mesh, [f"P({op})"])
        with sw.dtensor.implicit_replication():
            got = MONOTONE[name](x).full_tensor().numpy()
        np.testing.assert_allclose(got, MONOTONE[name](sw.tensor(whole)).numpy(), rtol=1e-12)

    run_threads(go, 3)


def test_maxima_pass_what_is_monotone_and_no_more() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x = from_local(sw.tensor([[-5.0, -6.0], [-7.0, -9.0]][rank]), mesh, ["P(max)"])
        with sw.expect(others=0):
            assert str(x.exp().layout) == "P(max)"
            assert str((-x).layout) == "P(min)"
            assert str(x.amax().layout) == "P(max)"
        assert x.norm(float("inf")).item() == 6.0

    run_threads(go, 2)


def every_op() -> list[type[Function]]:
    """Give the ops that say something of partial inputs."""
    found: dict[str, type[Function]] = {}
    todo: list[type[Function]] = [Function]
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            if kind.__module__.startswith(ops.__name__) and (kind.linear or kind.monotone):
                found[f"{kind.__module__}.{kind.__name__}"] = kind
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize("kind", [k for k in every_op() if k.monotone], ids=lambda k: k.__name__)
def test_monotone_ops_are_so(kind: Any) -> None:
    x = np.sort(np.concatenate([numbers(40, 5).ravel(), [-np.inf, np.inf, 0.0, -0.0, 0.5, 1e-300]]))
    params = {"low": -1.0, "high": 2.0} if kind.__name__ == "HardTanh" else {}
    with np.errstate(all="ignore"):
        y = kind.apply(x, **params)
        assert np.isnan(kind.apply(np.array([np.nan]), **params)).all()
    assert not np.isnan(y).any()
    assert (kind.monotone * np.diff(y)[np.diff(y) == np.diff(y)] >= 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_on_two_axes(data: st.DataObject) -> None:
    shape = (data.draw(st.integers(1, 6)), 3)
    ways = ["R", "S(0)", "S(1)", "P"]
    placed = [
        (data.draw(st.sampled_from(ways)), data.draw(st.sampled_from(["R", "S(0)", "S(1)"])))
        for _ in range(2)
    ]
    fn = LINEAR[data.draw(st.sampled_from(sorted(LINEAR)))]
    compare_on(fn, [numbers(*shape), numbers(*shape, seed=1)], (2, 2), placed)


def test_number_added_where_two_axes_are_partial() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]])
        x = from_local(sw.tensor([1.0 + rank]), mesh, ["P", "P"])
        with sw.expect(others=0):
            y = x + 2.0
        assert str(y.layout) == "P P"
        assert y.item() == 12.0
        assert (x * 2.0 + 1).item() == 21.0
        z = distribute_tensor(sw.tensor([3.0]), mesh, ["R", "R"])
        assert (x + z).item() == 13.0

    run_threads(go, 4)
