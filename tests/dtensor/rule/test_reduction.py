"""Reductions over sharded dims against those of whole tensors; what they send."""

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
from shardwise.errors import ShapeError
from shardwise.mesh import DeviceMesh

OPS: dict[str, Any] = {
    "sum": lambda x: x.sum(0),
    "sum of all": lambda x: x.sum(),
    "mean": lambda x: x.mean(0),
    "mean kept": lambda x: x.mean((0, 1), keepdim=True),
    "mean of all": lambda x: x.mean(),
    "nansum": lambda x: x.nansum(0),
    "nanmean": lambda x: x.nanmean(0),
    "var": lambda x: x.var(0),
    "var of all": lambda x: x.var(correction=0),
    "std kept": lambda x: x.std((0,), keepdim=True),
    "var_mean": lambda x: x.var_mean(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "logsumexp of all": lambda x: x.logsumexp((0, 1), keepdim=True),
    "prod": lambda x: (x * 0.1).prod(0),
    "prod of all": lambda x: (x * 0.1 + 1.0).prod(),
    "norm": lambda x: x.norm(),
    "norm 0": lambda x: x.norm(0, 0),
    "norm 1": lambda x: x.norm(1, 0),
    "norm 3": lambda x: x.norm(3, 0, keepdim=True),
    "all": lambda x: (x > -1.0).all(0),
    "any": lambda x: (x > 2.0).any(),
    "count": lambda x: (x > 0.0).count_nonzero(0),
}
CHOICES: dict[str, Any] = {
    "amax": lambda x: x.amax(0),
    "amax of all": lambda x: x.amax(),
    "amin kept": lambda x: x.amin((0, 1), keepdim=True),
    "max": lambda x: x.max(0),
    "max kept": lambda x: x.max(1, keepdim=True),
    "min": lambda x: x.min(0),
    "argmax": lambda x: x.argmax(0),
    "argmax of all": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(1, keepdim=True),
    "norm inf": lambda x: x.norm(math.inf, 0),
    "norm -inf": lambda x: x.norm(-math.inf),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of means of nothing
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", OPS)
def test_reductions(name: str, world: int) -> None:
    for n in sizes(world):
        compare(OPS[name], numbers(n, 3), world=world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(CHOICES[name], numbers(n, 3), world=world)


@pytest.mark.parametrize("name", CHOICES)
def test_ties_share_or_go_to_the_first(name: str) -> None:
    x = np.round(np.cos(np.arange(21) * 2.1)).reshape(7, 3)  # -1, 0 and 1, many times
    compare(CHOICES[name], x, world=3, partial=False)
    compare(CHOICES[name], np.zeros((7, 3)), world=4, partial=False)


@pytest.mark.parametrize("name", [name for name in CHOICES if not name.startswith("norm")])
def test_extremes_are_nan_where_there_is_one(name: str) -> None:
    x = numbers(7, 3)
    x[5, 1] = x[2, 1] = math.nan
    compare(lambda x: CHOICES[name](x.detach()), x, world=3, partial=False)


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint8, np.bool_, np.float32])
def test_kinds_of_numbers(kind: type) -> None:
    x = (np.arange(21).reshape(7, 3) % 5 - 2).astype(kind)
    for fn in (
        lambda x: x.sum(0), lambda x: x.mean(0), lambda x: x.prod(0), lambda x: x.amax(0),
        lambda x: x.amin(0), lambda x: x.argmax(0), lambda x: x.any(0), lambda x: x.max(0),
    ):  # fmt: skip
        compare(lambda x, fn=fn: fn(x.detach()), x, world=4, partial=False)


@pytest.mark.parametrize("name", ["mean", "var", "logsumexp", "norm", "amax", "prod"])
def test_complex_and_infinite(name: str) -> None:
    z = numbers(5, 3) + 1j * numbers(5, 3, seed=1)
    if name not in ("logsumexp", "amax"):
        compare(OPS[name], z, world=3)
    x = numbers(5, 3)
    x[0], x[1, 0], x[1, 1] = -math.inf, -math.inf, math.inf
    if name in ("logsumexp", "amax"):
        compare({**OPS, **CHOICES}[name], x, world=3, partial=False)


def test_nothing_to_choose_from_is_an_error_on_all_ranks() -> None:
    def go(rank: int) -> str:
        x = distribute_tensor(sw.tensor(np.zeros((0, 3))), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
        with pytest.raises(ShapeError) as error:
            x.amax(0)
        return str(error.value)

    assert len(set(run_threads(go, 3))) == 1


def test_what_reductions_send_is_of_the_size_of_the_result() -> None:
    x = numbers(3000, 4) * 1e-4  # 32 bytes per row
    for name in ("mean", "nansum", "all", "count", "sum of all"):
        assert moved(lambda x, name=name: OPS[name](x.detach()), [x], ["S(0)"], 3)[0] == 0, name
    for name in ("var", "std kept", "logsumexp", "prod", "norm", "norm 3", *CHOICES):
        fn = {**OPS, **CHOICES}[name]
        sent, laid = moved(fn, [x], ["S(1)" if name in ("argmin", "max kept") else "S(0)"], 3)
        assert sent <= (2000 if laid == ["R"] and name not in ("argmin", "max kept") else 200_000), name


def test_reductions_of_a_sharded_dim_gather_nothing() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = distribute_tensor(sw.tensor(numbers(30, 2)), mesh, ["S(0)"])
        x.requires_grad = True
        with sw.expect(all_reduce=1, all_gather=0, others=0):
            top = x.amax(0)
        with sw.expect(all_reduce=1, others=0):
            top.sum().backward()  # how many are as large
        with sw.expect(all_reduce=0, all_gather=1, others=0):
            x.var(0)
        with sw.expect(all_reduce=2, others=0):
            total = x.logsumexp(0).sum()
        with sw.expect(others=0):
            total.backward()
        with sw.expect(others=0):
            x.mean()

    run_threads(go, 3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_reductions_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 3)))
    ways = ["R", "S(0)", "S(1)", "S(2)"]
    placed = (data.draw(st.sampled_from(ways)), data.draw(st.sampled_from([*ways, "P"])))
    dim = data.draw(st.sampled_from([0, 1, 2, (0, 1), (0, 2), (0, 1, 2)]))
    kept = data.draw(st.booleans())
    fn = data.draw(
        st.sampled_from(
            [
                lambda x: x.sum(dim, kept), lambda x: x.mean(dim, kept), lambda x: (x * 0.1).prod(dim, kept),
                lambda x: x.var(dim, keepdim=kept, correction=0), lambda x: x.logsumexp(dim, kept),
                lambda x: x.amax(dim, kept), lambda x: x.norm(2, dim, kept), lambda x: x.norm(math.inf, dim),
                lambda x: x.argmax(None if isinstance(dim, tuple) else dim, kept),
                lambda x: x.max(dim if isinstance(dim, int) else 0, kept),
            ]
        )
    )  # fmt: skip
    compare_on(fn, [numbers(*shape)], (2, 2), [placed])
