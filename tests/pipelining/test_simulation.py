"""The simulator beyond makespans: links, what is beside the computation, memory by cause, why ranks wait."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import (
    Costs,
    Program,
    Simulation,
    draw,
    draw_png,
    draw_svg,
    explain,
    lower,
    simulate,
)
from shardwise.pipelining.schedule.interleaved import interleaved_one_forward_one_backward
from shardwise.pipelining.schedule.single import gpipe, one_forward_one_backward, zb_h1
from shardwise.pipelining.schedule.vee import dual_pipe_v, zbv
from shardwise.pipelining.timeline import trace_events, write_trace

PROGRAMS = [gpipe(3, 4), one_forward_one_backward(4, 6), zb_h1(3, 6), zbv(3, 6), dual_pipe_v(2, 5)]


def longest_path(program: Program, costs: Costs) -> float:
    """The makespan by another way: the longest path through all that must come before what."""
    ends: dict[tuple[str, int, int], tuple[float, int]] = {}
    free = [0.0] * len(program)
    todo = [list(actions) for actions in program]
    last = program.stages - 1
    while any(todo):
        for rank, actions in enumerate(todo):
            if not actions:
                continue
            begin, found, own = free[rank], True, set()
            for part in actions[0].compute:
                i, s = part.microbatch, part.stage
                wanted = {
                    "F": [("F", s - 1, i)] if s else [],
                    "W": [("I", s, i)],
                    "I": [("F", s, i)] + ([("I", s + 1, i)] if s < last else []),
                }["I" if part.kind == "B" else part.kind]
                for need in wanted:
                    if need not in own and need not in ends:
                        found = False
                    elif need not in own:
                        at, where = ends[need]
                        begin = max(begin, at + (costs.hop(where, rank) if where != rank else 0))
                own.add(("I" if part.kind == "B" else part.kind, s, i))
            if found:
                action = actions.pop(0)
                free[rank] = begin + costs.of(action)
                ends.update(dict.fromkeys(own, (free[rank], rank)))
    return max(free)


@given(
    st.sampled_from(PROGRAMS),
    st.lists(st.floats(0.1, 3), min_size=3, max_size=3),
    st.floats(0, 2),
    st.lists(st.floats(0.5, 2), min_size=8, max_size=8),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_makespan_is_the_longest_path(
    program: Program, times: list[float], latency: float, slow: list[float]
) -> None:
    costs = Costs(*[[each * factor for factor in slow] for each in times], latency=latency)  # type: ignore[arg-type]
    run = simulate(program, costs)
    assert run.makespan == pytest.approx(longest_path(program, costs), rel=1e-12)
    path = run.critical_path
    assert path[0].start == 0
    assert path[-1].end == run.makespan
    for before, after in itertools.pairwise(path):
        gap = after.start - before.end
        assert gap == pytest.approx(0 if before.rank == after.rank else latency, abs=1e-9)
    lowered = simulate(lower(program), costs)
    assert lowered.makespan == run.makespan


def test_links_have_a_bandwidth() -> None:
    program = one_forward_one_backward(2, 3)
    assert (
        simulate(program, Costs(bandwidth=4.0, message=2.0)).makespan
        == simulate(program, Costs(latency=0.5)).makespan
    )
    assert simulate(program).traffic == {(0, 1): 3.0, (1, 0): 3.0}
    # Three outputs are made in three units and take four each to cross the one link: the last arrives at 13.
    slow = simulate(Program.from_text("0F0,0F1,0F2\n1F0,1F1,1F2"), Costs(bandwidth=0.25), lanes=True)
    assert [t.end for t in slow.transfers] == [5.0, 9.0, 13.0]
    assert slow.makespan == 14
    assert simulate(slow.program, Costs(bandwidth=0.25)).makespan == 8


def test_gathers_and_reductions_go_beside() -> None:
    program = lower(Program.from_text("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0"), 2, True)
    free = simulate(program)
    run = simulate(program, Costs(UNSHARD=0.5, REDUCE_GRAD=3.0))
    assert run.spans[0][0].why == "parameters"
    assert run.spans[0][0].start == 0.5
    # Stage 2's reduction runs while stage 0 still computes; stage 0's makes the run longer.
    assert [str(span.action) for span in run.asides[0] if span.action.kind == "REDUCE_GRAD"] == [
        "2REDUCE_GRAD", "0REDUCE_GRAD",
    ]  # fmt: skip
    assert run.makespan == free.makespan + 0.5 + 3.0
    assert "gathers and reductions that take no time" in str(explain(run))


def test_sizes_of_microbatches() -> None:
    run = simulate(gpipe(1, 2), Costs(sizes=[1.0, 0.5]))
    assert run.makespan == 4.5
    assert run.peak == (1.5,)


@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_by_cause(program: Program) -> None:
    costs = Costs(kept=0.25, weights=3.0, gradients=2.0, optimizer=1.0)
    run = simulate(program, costs)
    for rank, spans in enumerate(run.spans):
        use = run.memory(rank)
        held = [a + b for a, b in zip(use.held["activations"], use.held["parked"], strict=True)]
        assert max(held) == pytest.approx(run.peak[rank])
        stages = len(program.stages_of(rank))
        assert set(use.held["weights"]) <= {0.0, 3.0 * stages}
        assert use.held["gradients"][-1] == 2.0 * stages
        assert [use.held[cause][-1] for cause in ("activations", "parked", "received")] == pytest.approx(
            [0] * 3
        )
        # By brute force: what is held while an action runs.
        for span in spans:
            count = 0.0
            for other in spans:
                for part in other.action.compute:
                    made = part.kind == "F" and other.start <= span.start
                    gone = part.kind in ("B", "W") and other.end <= span.start
                    half = part.kind == "I" and other.end <= span.start
                    count += made - gone * (1.0 if part.kind == "B" else 0.25) - half * 0.75
            assert count <= run.peak[rank] + 1e-9


def test_what_is_run_again_is_not_kept() -> None:
    program = Program.from_text("0F0,0F1,0F2,0R0,0B0,0R1,0B1,0R2,0B2")
    run = simulate(program, Costs(checkpointed=0.1))
    assert run.makespan == 12
    assert run.peak == pytest.approx((1.2,))


def test_explanation() -> None:
    run = simulate(one_forward_one_backward(4, 8), Costs(F=[1, 1, 1, 1.8], latency=0.1))
    told = explain(run)
    assert str(told.gaps[0]) == (
        "rank 0 waits 7.4 from 4 on, before 0B0: 1B0 of rank 1, which ends at 11.3, and 0.1 on the way"
    )
    assert str(told.help[0]) == "stage 3 10% shorter: 36.96, 7.6% less"
    assert sum(gap.length for gap in told.gaps) == pytest.approx(sum(run.idle))
    assert sum(told.shares.values()) == pytest.approx(run.makespan)
    assert str(told).startswith("40 units, bubble 36.0%; ranks wait 16, 16, 16, 9.6\n")


def test_what_if() -> None:
    run = simulate(one_forward_one_backward(4, 8), Costs(latency=1.0))
    assert (run.makespan, run.what_if(latency=0.0).makespan) == (49, 33)


def test_trace(tmp_path: Path) -> None:
    run = simulate(lower(interleaved_one_forward_one_backward(2, 4, 2), 1), Costs(latency=0.25, UNSHARD=0.5))
    events = trace_events(run, 10.0)
    slices = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert len(slices) == 2 * 16
    starts, ends = ({e["id"]: e for e in events if e["ph"] == ph} for ph in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == len(run.transfers) == 2 * 3 * 4
    for number, start in starts.items():
        assert float(str(start["ts"])) < float(str(ends[number]["ts"]))
        inside = [
            s for s in slices if s["pid"] == start["pid"] and s["ts"] <= start["ts"] <= s["ts"] + s["dur"]
        ]  # type: ignore[operator]
        assert inside
    write_trace(run, tmp_path / "trace.json")
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == len(events)


def test_pictures(tmp_path: Path) -> None:
    run: Simulation = simulate(dual_pipe_v(2, 5))
    text = draw(run)
    assert text.split("\n")[1].startswith("rank 1 |")
    assert "+" in text  # what overlaps
    picture = ElementTree.fromstring(draw_svg(run, tmp_path / "run.svg"))
    titles = [e.text for e in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == sum(len(spans) for spans in run.spans)
    assert "0F0: 0 to 1" in titles
    assert len(draw(simulate(gpipe(2, 500)), columns=100).split("\n")[0].split()) <= 103


def test_a_png_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ScheduleError, match="a PNG needs matplotlib, which is not installed"):
        draw_png(simulate(gpipe(2, 2)), tmp_path / "run.png")


def test_costs_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text('{"F": [1, 2], "latency": 0.5}')
    assert Costs.from_file(tmp_path / "costs.json") == Costs(F=[1, 2], latency=0.5)
    (tmp_path / "costs.json").write_text('{"forward": 1}')
    with pytest.raises(ScheduleError, match="got forward"):
        Costs.from_file(tmp_path / "costs.json")
    with pytest.raises(ScheduleError, match="cannot read costs from"):
        Costs.from_file(tmp_path / "none.json")
