"""Boxes against sets of their elements; who sends what against what everyone lacks."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shardwise.dtensor import Box
from shardwise.dtensor.redistribute.box import common, rest, route, volume

Element = tuple[int, ...]


def elements(box: Box) -> set[Element]:
    return set(itertools.product(*[range(at, at + n) for at, n in zip(*box, strict=True)]))


@st.composite
def boxes(draw: st.DrawFn, count: int) -> list[Box]:
    ndim = draw(st.integers(0, 3))
    side = st.tuples(st.integers(0, 5), st.integers(1, 4))
    found = []
    for _ in range(count):
        sides = [draw(side) for _ in range(ndim)]
        found.append(Box(tuple([at for at, _ in sides]), tuple([n for _, n in sides])))
    return found


@given(boxes(2))
def test_two_boxes(pair: list[Box]) -> None:
    a, b = pair
    both = common(a, b)
    assert (elements(a) & elements(b)) == (set() if both is None else elements(both))
    assert volume(a) == len(elements(a))
    if both is not None:
        parts = rest(a, both)
        assert sum(map(volume, parts)) == volume(a) - volume(both)
        assert set().union(*map(elements, parts), elements(both)) == elements(a)


@given(boxes(4), boxes(4), st.sampled_from([(), (0, 0, 1, 1), (0, 1, 0, 1)]))
def test_everyone_gets_what_it_lacks_once(
    held_boxes: list[Box], wanted_boxes: list[Box], hosts: tuple[int, ...]
) -> None:
    if len(held_boxes[0].shape) != len(wanted_boxes[0].shape):
        return
    # Copies of two boxes, apart from each other, as those of a layout are.
    first, second = held_boxes[:2]
    if common(first, second) is not None:
        return
    held = {0: first, 1: second, 2: first, 3: second}
    available = elements(first) | elements(second)
    wanted = dict(enumerate(wanted_boxes))
    ways = {rank: route(held, wanted, rank, hosts) for rank in range(4)}
    for rank, way in ways.items():
        got = [(peer, box) for peer, each in way.received.items() for box in each]
        own = set() if way.kept is None else elements(way.kept)
        assert own == elements(wanted[rank]) & elements(held[rank])
        came = [element for _, box in got for element in elements(box)]
        assert len(came) == len(set(came))
        assert set(came) == (elements(wanted[rank]) & available) - own
        for peer, each in way.received.items():
            assert peer != rank
            assert ways[peer].sent[rank] == each
            assert all(elements(box) <= elements(held[peer]) for box in each)
            if hosts:
                assert hosts[peer] == hosts[rank] or all(
                    held[other] != held[peer] for other in range(4) if hosts[other] == hosts[rank]
                )


def test_those_who_have_the_same_take_turns() -> None:
    halves = [Box((0,), (4,)), Box((4,), (4,))]
    held = {rank: halves[rank // 4] for rank in range(8)}
    wanted = dict.fromkeys(range(8), Box((0,), (8,)))
    sent = [sum(volume(b) for each in route(held, wanted, rank).sent.values() for b in each) for rank in held]
    assert sent == [4] * 8
