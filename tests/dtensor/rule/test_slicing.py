"""Slices, turns, joins and paddings of sharded tensors against those of whole ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwise as sw
from part_oracle import WORLDS, compare, compare_on, moved, numbers, sizes
from shardwise.nn import functional as F

KEYS: list[Any] = [
    slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(None, 1, -2), slice(-2, None),
    (slice(None), slice(1, None)), (None, slice(1, None), ...), (..., -1), slice(3, 3),
]  # fmt: skip
OPS: dict[str, Any] = {
    "flip": lambda x: x.flip(0),
    "flip both": lambda x: x.flip(0, 1),
    "flip inside": lambda x: x.flip(1),
    "roll": lambda x: x.roll(2, 0),
    "roll back": lambda x: x.roll(-1, 0),
    "roll two": lambda x: x.roll((1, 5), (0, 1)),
    "roll flat": lambda x: x.roll(3),
    "repeat": lambda x: x.repeat(2, 1),
    "tile": lambda x: x.tile(2, 3, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 0),
    "chunk": lambda x: x.chunk(3, 0),
    "unbind": lambda x: x.unbind(0),
    "unbind inside": lambda x: x.unbind(1),
    "cat itself": lambda x: sw.cat([x, x], 0),
    "stack": lambda x: sw.stack([x, x * 2], 1),
    "pad": lambda x: F.pad(x, (1, 2, 3, 1), value=2.0),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "tril far": lambda x: x.tril(-2),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1, 1, 0)),
    "diagonal of a stack": lambda x: x[None].expand(2, -1, 5).diagonal(-1, 1, 2),
    "trace": lambda x: x.trace(),
    "diag": lambda x: (x[:, 0].diag(1), x[:, 1].diag(-2), x.T.diag_embed()),
    "swap": lambda x: sw.cat([x[1:], x[:1]], 0),
    "through": lambda x: (x[1:].exp() * x[:-1]).sum(1),
    "movedim": lambda x: x.movedim(0, 1)[:, None].expand(5, 2, -1),
    "rot90": lambda x: x.rot90(),
    "fftshift": lambda x: sw.fft.fftshift(x, 0),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_slices(key: Any, world: int) -> None:
    for n in sizes(world):
        compare(lambda x: x[key], numbers(n, 5), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_single_places(world: int) -> None:
    for n in sizes(world)[1:]:
        for at in {0, n - 1, -1, n // 2}:
            compare(lambda x, at=at: x[at], numbers(n, 5), world=world)
            compare(lambda x, at=at: x[1:, None, at], numbers(3, n), world=world)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", OPS)
def test_moves(name: str, world: int) -> None:
    for n in sizes(world):
        compare(OPS[name], numbers(n, 5), world=world)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("world", WORLDS)
def test_paddings_of_values(mode: str, world: int) -> None:
    for n in (3, world + 1, 2 * world + 1):
        compare(lambda x: F.pad(x, (2, 1), mode=mode), numbers(2, 3, n), world=world)


@pytest.mark.parametrize("world", WORLDS)
def test_joining(world: int) -> None:
    for n in sizes(world):
        compare(lambda x, y: sw.cat([x, y, x[:1]], 0), numbers(n, 3), numbers(4, 3, seed=1), world=world)


def test_slices_send_nothing_and_joins_send_what_changes_its_rank() -> None:
    x = numbers(12, 4)
    assert moved(lambda x: x[2:12:3], [x], ["S(0)"], 3) == (0, ["S(0, [1, 1, 2])"])
    assert moved(lambda x: x[3:], [x], ["S(0)"], 3) == (0, ["S(0, [1, 4, 4])"])
    assert moved(lambda x: x.repeat_interleave(2, 0), [x], ["S(0)"], 3) == (0, ["S(0)"])
    assert moved(lambda x: F.pad(x, (0, 0, 1, 1)), [x], ["S(0)"], 3) == (0, ["S(0, [5, 4, 5])"])
    assert moved(lambda x: x.tril(), [x], ["S(0)"], 3) == (0, ["S(0)"])
    x, row = numbers(600, 64), 64 * 8
    assert moved(lambda x: x.roll(1, 0), [x], ["S(0)"], 3)[0] <= 2 * row
    assert moved(lambda x: x.flip(0), [x], ["S(0)"], 3)[0] <= 200 * row
    assert moved(lambda x: x[5], [x], ["S(0)"], 3)[0] <= 2 * row


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_slices_on_two_axes(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    placed = (
        data.draw(st.sampled_from(["R", "S(0)", "S(1)"])),
        data.draw(st.sampled_from(["R", "S(0)", "S(1)", "P"])),
    )

    def bound(n: int) -> Any:
        return data.draw(st.none() | st.integers(-n, n))

    key = tuple(
        [slice(bound(n), bound(n), data.draw(st.sampled_from([None, 1, 2, 3, -1, -2]))) for n in shape]
    )
    compare_on(lambda x: sw.cat([x[key], x[key].flip(0)], 1), [numbers(*shape)], (2, 2), [placed])
