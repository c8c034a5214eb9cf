"""Sorts, best values, distinct values and transforms along sharded dims against those of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes

ORDERS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: x.sort(0),
    "sort down": lambda x: x.sort(0, descending=True),
    "argsort": lambda x: x.argsort(0, descending=True),
    "sort inside": lambda x: x[:, None].expand(-1, 3).sort(1),
    "unique": lambda x: x.detach().unique(return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: x.detach().unique_consecutive(return_inverse=True, return_counts=True),
    "msort of columns": lambda x: (x[:, None] * sw.tensor([1.0, -2.0])).msort(),
    "kthvalue": lambda x: x.kthvalue(min(3, len(x)), 0),
    "kthvalue kept": lambda x: x.kthvalue(1, 0, keepdim=True),
    "nanmedian": lambda x: x.nanmedian(0),
    "median": lambda x: x.median(0),
    "cumsum and flip": lambda x: x.flip(0).cumsum(0),
}


def with_ties(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-2, 3, n).astype(np.float64)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", ORDERS)
def test_orders(name: str, world: int) -> None:
    for n in (*sizes(world), 40):
        if n or name not in ("median", "nanmedian", "kthvalue", "kthvalue kept"):
            compare(ORDERS[name], with_ties(n), world=world, partial=False)
            compare(ORDERS[name], numbers(n), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_orders_with_nan_and_of_other_types(world: int) -> None:
    x = with_ties(23)
    x[[3, 7, 20]] = np.nan
    compare(lambda x: (x.sort(0), x.sort(0, descending=True)), x, world=world, partial=False)
    compare(lambda x: x.detach().unique(return_counts=True), x, world=world, partial=False)
    compare(lambda x: (x.median(0), x.nanmedian(0)), x, world=world, partial=False)
    for dtype in (bool, np.int8, np.int64, np.uint8):
        whole = (with_ties(19) > 0) if dtype is bool else np.abs(with_ties(19)).astype(dtype)
        compare(lambda x: (x.sort(0), x.unique(return_inverse=True)), whole, world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_counts(world: int) -> None:
    for n in sizes(world):
        whole = np.abs(with_ties(n)).astype(np.int64)
        compare(lambda x: x.bincount(), whole, world=world)
        compare(lambda x, w: x.bincount(w, minlength=5), whole, numbers(n), world=world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("largest", [True, False])
def test_top(largest: bool, world: int) -> None:
    for n in (*sizes(world)[1:], 30):
        for k in {0, 1, min(2, n), n}:
            compare(lambda x, k=k: x.topk(k, 0, largest=largest), with_ties(n), world=world, partial=False)
            compare(lambda x, k=k: x.topk(k, 0, largest=largest), numbers(n, 3), world=world)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_orders_on_two_axes(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 30))
    placed = [data.draw(st.sampled_from(["R", "S(0)", "S(0)", "P"])) for _ in range(2)]
    if placed == ["P", "P"]:
        placed = ["P", "S(0)"]
    whole = with_ties(n, data.draw(st.integers(0, 99))) if placed.count("P") == 0 else numbers(n)
    compare_on(lambda x: (x.sort(0), x.topk(min(n, 2), 0)), [whole], (2, 2), [placed])


def test_no_rank_gets_everything() -> None:
    x = numbers(40000)
    sent, layouts = moved(lambda x: x.sort(0), [x], ["S(0)"], 4)
    assert sent < 5 * x.nbytes // 4  # values, where they were, and the values again, to one rank each
    assert layouts[0].startswith("S(0, [")
    assert moved(lambda x: x.topk(5, 0), [x], ["S(0)"], 4)[0] < 1000
    assert moved(lambda x: x.unique_consecutive(), [x], ["S(0)"], 4)[0] < 5 * x.nbytes // 4
    sent, layouts = moved(lambda x: x.sort(0), [numbers(400, 100)], ["S(0)"], 4)
    assert sent <= x.nbytes // 4
    assert layouts[0] == "S(1)"


# ---- transforms

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "fft": lambda x: sw.fft.fft(x, dim=0),
    "rfft": lambda x: sw.fft.rfft(x, dim=0),
    "irfft": lambda x: sw.fft.irfft(x.astype(np.complex128), n=6, dim=0),
    "ifft cut": lambda x: sw.fft.ifft(x, n=3, dim=0),
    "fft2": lambda x: sw.fft.fft2(x),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, world: int) -> None:
    for n in sizes(world)[1:]:
        compare(TRANSFORMS[name], numbers(n, 5), world=world)


def test_a_transform_cuts_another_dim() -> None:
    x = numbers(512, 64)
    sent, layouts = moved(lambda x: sw.fft.fft(x, dim=0), [x], ["S(0)"], 4)
    assert layouts == ["S(1)"]
    assert sent <= x.nbytes // 4
