"""Reshapes and views of sharded tensors, and results whose shape depends on data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes, tensor_in
from shardwise.backend.errors import LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import Shard, distribute_tensor
from shardwise.mesh import DeviceMesh


@pytest.mark.parametrize("world", WORLDS)
def test_reshapes(world: int) -> None:
    for n in sizes(world):
        for shape in ((-1,), (n, 2, 3), (2, n, 3), (3, 2 * n), (1, n, 6), (6, n), (n * 2, 1, 3)):
            if n or -1 not in shape:
                compare(lambda x, shape=shape: x.reshape(shape), numbers(n, 6), world=world)
        compare(lambda x: x.flatten(1).unflatten(1, (2, 3)).squeeze(0), numbers(n, 2, 3), world=world)
        compare(lambda x: x.unsqueeze(1).squeeze(), numbers(n, 6), world=world)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_reshapes_on_two_axes(data: st.DataObject) -> None:
    shapes = [(4, 6), (24,), (2, 3, 4), (8, 3), (3, 8), (2, 2, 6), (1, 24), (12, 1, 2), (4, 3, 2)]
    before, after = data.draw(st.sampled_from(shapes)), data.draw(st.sampled_from(shapes))
    ways = ["R", "P", *[f"S({d})" for d in range(len(before))]]
    placed = [data.draw(st.sampled_from(ways)) for _ in range(2)]
    if placed == ["P", "P"]:
        placed = ["R", "P"]
    compare_on(lambda x: x.reshape(after) * 2.0, [numbers(*before)], (2, 2), [placed])


def test_reshapes_send_nothing_where_pieces_are_pieces() -> None:
    for shape, placement, after, how in [
        ((8, 12), "S(0)", (96,), "S(0)"),
        ((8, 12), "S(0)", (4, 2, 12), "S(0)"),
        ((8, 12), "S(1)", (8, 4, 3), "S(1)"),
        ((7, 4), "S(0)", (28,), "S(0, [8, 8, 8, 4])"),
        ((1, 8), "S(1)", (8,), "S(0)"),
        ((12, 2), "S(0)", (6, 4), "S(0, [1, 2, 1, 2])"),
    ]:
        sent, layouts = moved(lambda x, after=after: x.reshape(after), [numbers(*shape)], [placement], 4)
        if shape != (12, 2):
            assert (sent, layouts) == (0, [how])
        with pytest.raises(LayoutError) if sent else np.errstate():
            moved(lambda x, after=after: x.view(after), [numbers(*shape)], [placement], 4)
    x = numbers(400, 300)
    sent, layouts = moved(lambda x: x.reshape(800, 150), [x], ["S(1)"], 4)
    assert layouts == ["S(0)"]
    assert sent <= x.nbytes // 4  # each element once, and not to everyone


def test_views_refuse_with_the_reason() -> None:
    def go(rank: int) -> str:
        x = distribute_tensor(sw.tensor(np.zeros((8, 12))), DeviceMesh("cpu", [0, 1, 2, 3]), ["S(0)"])
        with pytest.raises(LayoutError) as caught:
            x.view(2, 48)
        return str(caught.value)

    told = set(run_threads(go, 4))
    assert told == {
        "view: Layout(float64[8, 12] on (4): S(0)) cannot be seen in the shape (2, 48) where it lies: dim 0 "
        "of size 8, in pieces of [2, 2, 2, 2], is not cut between whole parts of that shape. reshape() moves "
        "it to [R] first, whose result is [R]; or redistribute it yourself"
    }


# ---- masks


@pytest.mark.parametrize("world", WORLDS)
def test_masks(world: int) -> None:
    for n in sizes(world):
        x = numbers(n, 3)
        rows = x[:, 0] > 0
        compare(lambda x: x[x > 0.3], x, world=world, partial=False)
        compare(lambda x, m: x[m] * 2.0, x, rows, world=world)
        compare(lambda x, rows=rows: x[rows], x, world=world)
        compare(lambda x, m: x.masked_select(m[:, None]), x, rows, world=world)
        compare(lambda x: x[:, np.array([True, False, True])], x, world=world)
        compare(lambda x: (x > 0).nonzero(), x, world=world)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_masks_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(*[st.integers(0, 5)] * 3))
    placed = [data.draw(st.sampled_from(["R", "S(0)", "S(1)", "S(2)"])) for _ in range(2)]
    taken = data.draw(st.integers(1, 3))
    mask = numbers(*shape[:taken], seed=1) > 0
    there = [data.draw(st.sampled_from(["R", *[f"S({d})" for d in range(taken)]])) for _ in range(2)]
    compare_on(lambda x, m: (x[m], m.nonzero()), [numbers(*shape), mask], (2, 2), [placed, there])


def test_masks_send_counts_alone() -> None:
    x = numbers(4000, 5)
    sent, layouts = moved(lambda x: x[x[:, 0] > 0], [x], ["S(0)"], 4)
    assert sent <= 4 * 8
    assert layouts[0].startswith("S(0, [")
    assert moved(lambda x: (x > 0).nonzero(), [x], ["S(0)"], 4)[0] <= 4 * 8


def test_ragged_tensors_go_through_ops_and_are_balanced() -> None:
    def go(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        x = tensor_in(numbers(9, 2), mesh, ["S(0)"])
        some = x[x[:, 0] > 0.5]
        y = (some.exp() * some).T[None].sum(1)
        assert isinstance(y.placements[0], Shard)
        even = some.rebalance()
        assert even.layout.is_plain
        assert even.rebalance() is even
        want = numbers(9, 2)
        want = want[want[:, 0] > 0.5]
        np.testing.assert_array_equal(even.full_tensor().detach().numpy(), want)
        np.testing.assert_allclose(y.full_tensor().detach().numpy(), (np.exp(want) * want).sum(1)[None])

    run_threads(go, 3)
