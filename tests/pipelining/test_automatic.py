"""The automatic scheduler: never worse than a named schedule that fits, and as good as the paper's own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import Costs, best_schedule, check, simulate
from shardwise.pipelining.program import loop_placement, v_placement
from shardwise.pipelining.schedule.greedy import Policy, greedy_program

# Qi et al. 2024, times in ms: p, m, F, I, W, latency; rates of ZB-1p and ZB-2p.
MEASURED = [
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.0433),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 0.1242, 0.0039),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0029),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1045, 0.0022),
]


@pytest.mark.parametrize("row", MEASURED)
def test_rates_of_the_paper(row: tuple[float, ...]) -> None:
    p, m = int(row[0]), int(row[1])
    costs = Costs(F=row[2], I=row[3], W=row[4], latency=row[5], kept=0.5)
    for memory, rate in ((p, row[6]), (2 * p, row[7])):
        choice = best_schedule(p, m, costs, memory=memory, measure="span")
        assert choice.simulation.skewless_bubble <= rate + 5e-4
        assert max(choice.simulation.peak) <= memory
        assert check(choice.program, ranks=p, stages=p, microbatches=m, memory=memory, costs=costs) == []


@given(
    st.integers(1, 4), st.integers(1, 9), st.lists(st.floats(0.2, 3.0), min_size=24, max_size=24),
    st.floats(0, 1), st.floats(1, 8),
)  # fmt: skip
@settings(max_examples=15, deadline=None, derandomize=True)
def test_never_worse_than_a_named_one_that_fits(
    p: int, m: int, times: list[float], latency: float, memory: float
) -> None:
    def costs(per_rank: int) -> Costs:
        n = p * per_rank
        return Costs(
            times[:n], times[8 : 8 + n], times[16 : 16 + n], latency=latency, activation=1 / per_rank
        )

    try:
        choice = best_schedule(p, m, {1: costs(1), 2: costs(2)}, memory=memory)
    except ScheduleError as error:
        if "no schedule" not in str(error) or memory >= p:
            raise  # 1F1B needs p
        return
    fitting = [each for each in choice.candidates if each.fits]
    assert choice.simulation.makespan == min(each.value for each in fitting)
    per_rank = choice.program.stages // p
    assert choice.simulation.makespan == simulate(choice.program, costs(per_rank)).makespan
    assert check(choice.program, ranks=p, memory=memory, costs=costs(per_rank)) == []


@given(
    st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(1, 8), st.floats(0, 2),
    st.sampled_from(["I", "F", "turns"]), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_greedy_programs_are_valid(
    p: int, v: int, vee: bool, m: int, latency: float, first: str, slack: float, patience: float, taper: float
) -> None:
    placement = v_placement(p, p * v) if vee else loop_placement(p, p * v)
    policy = Policy(first, slack, patience, taper)  # type: ignore[arg-type]
    program = greedy_program(placement, m, Costs(latency=latency), policy)
    assert program is not None
    assert check(program, ranks=p, stages=p * v, microbatches=m, format="compute_only") == []
    assert program.placement == placement


def test_nothing_fits() -> None:
    with pytest.raises(ScheduleError, match=r"keeps within memory=0.5; the smallest one needs 2$"):
        best_schedule(2, 4, memory=0.5)
    with pytest.raises(ScheduleError, match="wanted a cap for each of 2 ranks, got 3"):
        best_schedule(2, 4, memory=[1, 2, 3])


def test_the_table() -> None:
    text = str(best_schedule(2, 4, memory=2))
    assert text.split("\n")[0].split() == ["schedule", "stages/rank", "time", "peak"]
    assert "GPipe" in text
    assert "does not fit" in text
