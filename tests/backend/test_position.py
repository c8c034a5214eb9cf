"""Random bits of boxes: each is the slice of what one rank would have made of the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend import random as bits
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.attention.attention import Dropped, attention_backward, attention_forward
from shardwise.backend.kernels.kernel import plain_formulas
from shardwise.backend.kernels.random.dropout import dropout_forward
from shardwise.backend.position import Grid, Positions, grid_of, located, steps_of

KINDS: dict[str, Callable[..., Any]] = {
    "uniform": lambda shape, place: bits.uniform(shape, np.float32, 7, 3, place),
    "uniform64": lambda shape, place: bits.uniform(shape, np.float64, 7, 3, place),
    "uniform16": lambda shape, place: bits.uniform(shape, np.float16, 7, 3, place),
    "normal": lambda shape, place: bits.normal(shape, np.float32, 7, 3, place),
    "normal64": lambda shape, place: bits.normal(shape, np.float64, 7, 3, place),
    "bernoulli": lambda shape, place: bits.bernoulli(shape, 0.4, 7, 3, place),
    "integers": lambda shape, place: bits.integers(-5, 11, shape, 7, 3, place),
    "dropout": lambda shape, place: dropout_forward(np.ones(shape, np.float32), 0.4, 7, 3, place)[0],
}


@st.composite
def boxes(draw: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    whole = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    offset = tuple(draw(st.integers(0, n)) for n in whole)
    shape = tuple(draw(st.integers(0, n - at)) for n, at in zip(whole, offset, strict=True))
    return draw(st.integers(0, 99)), whole, offset, shape


@settings(max_examples=120, deadline=None, derandomize=True)
@given(boxes(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_a_box_is_a_slice_of_the_whole(case: Any, kind: str, plain: bool) -> None:
    first, whole, offset, shape = case
    make = KINDS[kind]
    wanted = make(whole, first)[tuple(slice(at, at + n) for at, n in zip(offset, shape, strict=True))]
    place = located(first, offset, whole)
    if plain:
        with plain_formulas():
            got = make(shape, place)
    else:
        got = make(shape, place)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", ["uniform", "uniform64", "dropout"])
def test_runs_longer_than_a_buffer_of_words(kind: str) -> None:
    whole, offset, shape = (5, 3000), (1, 7), (3, 2900)
    wanted = KINDS[kind](whole, 2)[1:4, 7:2907]
    np.testing.assert_array_equal(KINDS[kind](shape, located(2, offset, whole)), wanted)


def test_a_box_of_a_box() -> None:
    outer = located(5, (1, 2), (6, 9))
    assert located(outer, (2, 3), (4, 5)) == located(5, (3, 5), (6, 9))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(boxes())
def test_grids_have_the_positions_of_the_box(case: Any) -> None:
    first, whole, offset, shape = case
    flat = first + np.arange(math.prod(whole)).reshape(whole)
    wanted = flat[tuple(slice(at, at + n) for at, n in zip(offset, shape, strict=True))].ravel()
    grid = grid_of(located(first, offset, whole), shape)
    if isinstance(grid, Grid):
        np.testing.assert_array_equal(grid.positions(np.empty(0)), wanted)
        runs = grid.starts()[:, None] + np.arange(grid.length)
        np.testing.assert_array_equal(runs.ravel(), wanted)
    elif wanted.size:
        np.testing.assert_array_equal(grid + np.arange(wanted.size), wanted)


def test_attention_drops_of_some_heads_what_it_drops_of_all() -> None:
    generator = np.random.default_rng(0)
    q, k, v, g = (generator.standard_normal((3, 4, 6, 5)) for _ in range(4))
    whole = Dropped(0.4, 7, 3, 11)
    y, peak, share = attention_forward(q, k, v, None, None, 0.5, False, whole)
    slopes = attention_backward(g, q, k, v, None, None, y, peak, share, 0.5, False, whole)
    part = (slice(1, 3), slice(1, 4))
    some = Dropped(0.4, 7, 3, Positions(11 + (4 + 1) * 36, steps_of((3, 4, 6, 6))))
    for plain in (False, True):
        arrays = [np.ascontiguousarray(x[part]) for x in (q, k, v)]
        if plain:
            with plain_formulas():
                got = attention_forward(*arrays, None, None, 0.5, False, some)
                back = attention_backward(g[part], *arrays, None, None, *got, 0.5, False, some)
        else:
            got = attention_forward(*arrays, None, None, 0.5, False, some)
            back = attention_backward(g[part], *arrays, None, None, *got, 0.5, False, some)
        np.testing.assert_allclose(got[0], y[part], rtol=1e-12)
        for mine, all_ in zip(back[:3], slopes[:3], strict=True):
            assert mine is not None
            assert all_ is not None
            np.testing.assert_allclose(mine, all_[part], rtol=1e-10, atol=1e-12)


def test_a_place_before_the_start_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^uniform: wanted an offset of 0 or more, got -1\.$"):
        bits.uniform((2, 2), np.float32, 0, 0, Positions(-1, (4, 1)))
