"""Cuts are the best of all that there are."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.partition import partition


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_against_all_cuts(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    stages = data.draw(st.integers(1, count))
    numbers = st.integers(0, 9)
    costs = data.draw(st.lists(numbers, min_size=count, max_size=count))
    crossing = data.draw(st.none() | st.lists(numbers, min_size=count - 1, max_size=count - 1))
    speeds = data.draw(
        st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=stages, max_size=stages)
    )
    limited = data.draw(st.booleans())
    memory = data.draw(st.lists(numbers, min_size=count, max_size=count)) if limited else None
    limits = data.draw(st.lists(st.integers(0, 25), min_size=stages, max_size=stages)) if limited else None

    def largest(cuts: tuple[int, ...]) -> float:
        worst = 0.0
        for stage, (first, last) in enumerate(itertools.pairwise((*cuts, count))):
            if memory is not None and limits is not None and sum(memory[first:last]) > limits[stage]:
                return math.inf
            spent = sum(costs[first:last]) / (speeds[stage] if speeds else 1.0)
            worst = max(worst, spent + (crossing[last - 1] if crossing and last < count else 0.0))
        return worst

    every = [(0, *rest) for rest in itertools.combinations(range(1, count), stages - 1)]
    best = min(map(largest, every))
    if math.isinf(best):
        with pytest.raises(ScheduleError, match="fits the limits"):
            partition(costs, stages, crossing=crossing, speeds=speeds, memory=memory, limits=limits)
        return
    found = partition(costs, stages, crossing=crossing, speeds=speeds, memory=memory, limits=limits)
    assert len(found) == stages
    assert largest(found) == pytest.approx(best, abs=1e-9)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=7), st.integers(2, 4), st.sampled_from([0.0, 0.3]))
@settings(max_examples=200, deadline=None)
def test_stages_are_alike_where_the_largest_allows_it(costs: list[int], stages: int, slack: float) -> None:
    stages = min(stages, len(costs))

    def sizes(cuts: tuple[int, ...]) -> list[int]:
        return [sum(costs[a:b]) for a, b in itertools.pairwise((*cuts, len(costs)))]

    every = [(0, *rest) for rest in itertools.combinations(range(1, len(costs)), stages - 1)]
    most = min(max(sizes(cuts)) for cuts in every) * (1 + slack) + 1e-6
    squares = {cuts: sum(n * n for n in sizes(cuts)) for cuts in every if max(sizes(cuts)) <= most}
    least = min(squares.values())
    found = partition(costs, stages, slack=slack)
    assert found == min(cuts for cuts in squares if squares[cuts] == least)


def test_bad_counts() -> None:
    with pytest.raises(ScheduleError, match="cannot cut 2 units into 3 stages; wanted from 1 to 2"):
        partition([1.0, 1.0], 3)
    with pytest.raises(ScheduleError, match="crossing has 2 numbers, wanted 1"):
        partition([1.0, 1.0], 1, crossing=[1.0, 1.0])
