"""Look-ups and assignments along sharded dims against those of whole tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes, tensor_in
from shardwise.collectives import run_threads
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F


def places(n: int, *shape: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, n, shape)


LOOK_UPS: dict[str, Callable[..., Any]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select inside": lambda x, i: x.index_select(1, i.clip(0, x.shape[1] - 1)),
    "take": lambda x, i: x.take(i),
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])),
    "gather inside": lambda x, i: x.gather(1, i[:2, None].clip(0, 1).expand(-1, 3)[: x.shape[0]]),
    "take_along_dim": lambda x, i: x.take_along_dim(i[:, None] - 1, 0),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding padding": lambda x, i: F.embedding(i[:, None], x, padding_idx=0),
}
WRITES: dict[str, Callable[..., Any]] = {
    "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 4), v),
    "scatter number": lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 4), 2.5),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, 4), v),
    "scatter_reduce": lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(-1, 4), v, "mean"),
    "scatter_reduce amax": lambda x, i, v: x.scatter_reduce(
        0, i[:, None].expand(-1, 4), v, "amax", include_self=False
    ),
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
    "index_fill": lambda x, i, v: x.index_fill(0, i, 3.0),
    "index_put": lambda x, i, v: x.index_put([i], v),
    "index_put adding": lambda x, i, v: x.index_put([i], v, accumulate=True),
    "put": lambda x, i, v: x.put(i, v[:, 0]),
}
KEYS: list[Any] = [
    np.array([0, 0, -1]), (np.array([0, -1]), slice(1, 3)), (slice(None), np.array([1, 3, 1])),
    (np.array([0, -1]), np.array([2, 3])), (np.array([[0], [-1]]), np.array([2, 0])), (0, np.array([1, 1])),
    (np.array([0, -1]), None, slice(None, None, -1)), (slice(None, None, 2), np.array([3, 0])),
]  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups(name: str, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(LOOK_UPS[name], numbers(n, 4), places(n, 3), world=world)
    compare(LOOK_UPS[name], numbers(9, 4), places(9, 2 * world + 1), world=world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str, world: int) -> None:
    for n in sizes(world)[2:]:
        arrays = numbers(n, 4), places(n, 3), numbers(3, 4, seed=5)
        compare(WRITES[name], *arrays, world=world, most=14)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("at", range(len(KEYS)))
def test_keys(at: int, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(lambda x: x[KEYS[at]], numbers(n, 4), world=world)


def assigned(x: Any, key: Any, value: Any) -> Any:
    y = x * 1.0
    y[key] = value
    return y


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("at", range(len(KEYS)))
def test_assignments(at: int, world: int) -> None:
    for n in sizes(world)[1:]:
        shape = np.zeros((n, 4))[KEYS[at]].shape
        values = numbers(*shape, seed=4)
        compare(lambda x, v: assigned(x, KEYS[at], v), numbers(n, 4), values, world=world, most=9)
        compare(lambda x: assigned(x, KEYS[at], 2.0), numbers(n, 4), world=world)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_assigned_slices_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    placed = [data.draw(st.sampled_from(["R", "S(0)", "S(1)"])) for _ in range(2)]

    def part(n: int) -> Any:
        if data.draw(st.integers(0, 3)) == 0:
            return data.draw(st.integers(-n, n - 1))
        bounds = [data.draw(st.none() | st.integers(-n, n)) for _ in range(2)]
        return slice(*bounds, data.draw(st.sampled_from([None, 1, 2, -1, -2])))

    key = tuple([part(n) for n in shape])
    values = numbers(*np.zeros(shape)[key].shape, seed=2)
    there = [data.draw(st.sampled_from(["R", *[f"S({d})" for d in range(values.ndim)]])) for _ in range(2)]
    compare_on(lambda x, v: assigned(x, key, v), [numbers(*shape), values], (2, 2), [placed, there])


def test_tables_stay_where_they_are() -> None:
    table, few = numbers(4000, 16), places(4000, 5)
    for name in ("index_select", "embedding", "gather", "take_along_dim"):
        sent, _ = moved(LOOK_UPS[name], [table, few], ["S(0)", "R"], 4)
        assert sent == 0, name
    for name in ("scatter_add", "index_copy", "index_put", "scatter"):
        op = {
            "scatter": lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 16), v),
            "scatter_add": lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, 16), v),
        }.get(name, WRITES[name])
        sent, layouts = moved(op, [table, few, numbers(5, 16)], ["S(0)", "R", "R"], 4)
        assert (sent, layouts) == (0, ["S(0)"]), name
    assert (
        moved(lambda x, v: assigned(x, slice(7, 3000), v), [table, table[7:3000]], ["S(0)", "R"], 4)[0] == 0
    )
    assert moved(lambda x: x[few], [table], ["S(0)"], 4) == (0, ["P"])
    assert moved(lambda x, v: sw.searchsorted(x, v),
                 [np.sort(table[:, 0]), table[:3, 0]], ["S(0)", "R"], 4) == (0, ["P"])  # fmt: skip


@pytest.mark.parametrize("padding", [None, 1])
def test_gradients_of_a_vocabulary_stay_on_its_parts(padding: int | None) -> None:
    table, few = numbers(4000, 16), places(4000, 5)

    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2, 3])
        weight = tensor_in(table, mesh, ["S(0)"])
        with sw.explain() as seen:
            rows = F.embedding(tensor_in(few, mesh, ["R"]), weight, padding_idx=padding)
            (rows**2).sum().backward()
        assert seen.total_bytes() <= 3 * few.size * 16 * 8
        assert str(weight.grad.layout) == "S(0)"
        wanted = np.zeros_like(table)
        np.add.at(wanted, few, 2.0 * table[few])
        np.testing.assert_allclose(weight.grad.full_tensor().numpy(), wanted)

    run_threads(go, 4)


def test_assignment_writes_into_the_part() -> None:
    def go(rank: int) -> None:
        x = tensor_in(numbers(7, 3), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"], grad=False)
        before = x.data.local
        x[2:6] = 1.0
        x[5] = sw.tensor(2.0, dtype=np.float64)
        x[np.array([0, 6]), 1] = -1.0
        assert x.data.local is before
        want = numbers(7, 3)
        want[2:6], want[5], want[[0, 6], 1] = 1.0, 2.0, -1.0
        np.testing.assert_array_equal(x.full_tensor().numpy(), want)

    run_threads(go, 3)


ADDITIONS: dict[str, Callable[..., Any]] = {
    "index_add": lambda x, i, v: x.index_add(0, i, v, alpha=2.0),
    "index_put": lambda x, i, v: x.index_put((i.tolist(),), v, accumulate=True),
    "index_put a number": lambda x, i, v: x.index_put((i.tolist(), slice(1, 3)), 2.0, accumulate=True),
    "index_put by two": lambda x, i, v: x.index_put((i.tolist(), [1]), v[:, 0], accumulate=True),
}


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_send_and_hold_no_wholes(name: str) -> None:
    """What is added lies everywhere here: each rank takes what goes into its part."""
    x, index, values = numbers(4000, 4), places(4000, 8), numbers(8, 4)
    sent, laid = moved(ADDITIONS[name], [x, index, values], ["S(0)", "R", "R"], 4)
    assert (sent, laid) == (0, ["S(0)"])
    for world in (2, 3):
        compare(ADDITIONS[name], numbers(7, 4), places(7, 5), numbers(5, 4), world=world, most=12)


def test_other_integers_need_no_other_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps over a data set name other rows each time, many at once."""
    dispatch = importlib.import_module("shardwise.dtensor.dispatch")
    planned: list[Any] = []
    rules = {op: lambda case, rule=rule: planned.append(case.function) or rule(case)
             for op, rule in dispatch.RULES.items()}  # fmt: skip
    monkeypatch.setattr(dispatch, "RULES", rules)

    def go(rank: int) -> int:
        x = tensor_in(numbers(3000, 4), DeviceMesh("cpu", [0, 1]), ["S(0)"])
        before = 0
        for step in range(6):
            rows = places(3000, 2000, seed=step)
            out = x[rows]
            out.sum().backward()
            part = x[rows, 1:3]
            with sw.no_grad():
                x.index_put((rows,), 1.0)
                x.index_put((rows, slice(None, None, -1)), out)
            np.testing.assert_array_equal(out.full_tensor().detach().numpy(), numbers(3000, 4)[rows])
            np.testing.assert_array_equal(part.full_tensor().detach().numpy(), numbers(3000, 4)[rows, 1:3])
            if step == 0:
                before = len(planned)
        return len(planned) - before

    assert max(run_threads(go, 2)) == 0
