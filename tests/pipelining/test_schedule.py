"""The named schedules: worked programs, closed forms, and that they run on any link."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.checker.check import check
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.link import LINK_MODELS, run_on_links
from shardwise.pipelining.lowering import add_unsharding, lower
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.bidirectional import dual_pipe
from shardwise.pipelining.schedule.interleaved import (
    interleaved_one_forward_one_backward,
    interleaved_zero_bubble,
    looped_bfs,
)
from shardwise.pipelining.schedule.single import gpipe, one_forward_one_backward, zb_h1, zb_h2
from shardwise.pipelining.schedule.vee import dual_pipe_v, zbv
from shardwise.pipelining.simulation import simulate

# Four ranks, eight microbatches, as PyTorch 2.13 dumps them: (program, rank, actions).
WORKED = [
    (one_forward_one_backward(4, 8), 0, "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7"),
    (one_forward_one_backward(4, 8), 2, "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7"),
    (
        interleaved_one_forward_one_backward(4, 8, 2),
        0,
        "0F0,0F1,0F2,0F3,4F0,4F1,4F2,4F3,0F4,0F5,0F6,4B0,0F7,4B1,4F4,4B2,4F5,4B3,4F6,0B0,4F7,0B1,0B2,0B3,4B4,4B5,4B6,"
        "4B7,0B4,0B5,0B6,0B7",
    ),
    (
        interleaved_zero_bubble(4, 8, 1),
        2,
        "2F0,2F1,2I0,2F2,2I1,2F3,2I2,2W0,2F4,2I3,2W1,2F5,2I4,2W2,2F6,2I5,2W3,2F7,2I6,2W4,2I7,2W5,2W6,2W7",
    ),
    (
        zbv(4, 8),
        0,
        "0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,7F1,7I1,7W1,7F2,7I2,7W2,7F3,7I3,7W3,0F7,0I0,0W0,7F4,7I4,7W4,0I1,0W1,"
        "7F5,7I5,7W5,0I2,0W2,7F6,7I6,7W6,0I3,0W3,7F7,7I7,7W7,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7",
    ),
    (
        dual_pipe_v(4, 8),
        3,
        "3F0,4F0,3F1,4F1,3F2,4F2,3F3,4F3,3F4,4B0,(4F4;3B0)OVERLAP_F_B,(3F5;4B1)OVERLAP_F_B,(4F5;3B1)OVERLAP_F_B,"
        "(3F6;4B2)OVERLAP_F_B,(4F6;3B2)OVERLAP_F_B,(3F7;4B3)OVERLAP_F_B,(4F7;3B3)OVERLAP_F_B,4B4,3B4,4B5,3B5,4I6,"
        "3I6,4I7,3I7,4W6,3W6,4W7,3W7",
    ),
    (looped_bfs(2, 4, 2), 0, "0F0,0F1,0F2,0F3,2F0,2F1,2F2,2F3,2B3,2B2,2B1,2B0,0B3,0B2,0B1,0B0"),
]


@pytest.mark.parametrize(("program", "rank", "actions"), WORKED)
def test_worked_programs(program: Program, rank: int, actions: str) -> None:
    assert str(program).split("\n")[rank] == actions


def span(program: Program, **costs: object) -> float:
    return simulate(program, Costs(**costs)).makespan  # type: ignore[arg-type]


@pytest.mark.parametrize("p", range(2, 9))
@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_closed_forms(p: int, rounds: int) -> None:
    m = rounds * p
    assert span(gpipe(p, m)) == 3 * (m + p - 1)
    assert simulate(gpipe(p, m)).peak == (m,) * p
    run = simulate(one_forward_one_backward(p, m))
    assert (run.makespan, run.peak) == (3 * (m + p - 1), tuple(min(m, p - r) for r in range(p)))
    for v in (2, 3):
        run = simulate(interleaved_one_forward_one_backward(p, m, v))
        assert run.makespan == 3 * v * m + 3 * (p - 1)
        assert run.peak == tuple(min(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1) for r in range(p))
        run = simulate(interleaved_zero_bubble(p, m, v))
        assert (run.makespan, set(run.peak)) == (3 * v * m + p - 1, {v * p})
        assert span(looped_bfs(p, m, v)) == 3 * v * m + 3 * (p - 1)
    run = simulate(zb_h1(p, m))
    assert (run.makespan, set(run.peak)) == (3 * m + p - 1, {p})
    run = simulate(zb_h2(p, m))
    assert (run.makespan, set(run.lengths), set(run.peak)) == (3 * m + p - 1, {3 * m}, {2 * p - 1})
    run = simulate(zbv(p, m))
    assert (run.makespan, set(run.lengths), set(run.peak)) == (6 * m + p - 1, {6 * m}, {2 * p})
    run = simulate(dual_pipe_v(p, m))
    assert (run.makespan, set(run.peak)) == (6 * m + 2 * (p - 1), {2 * p + 1})


@pytest.mark.parametrize("p", [2, 4, 6, 8])
@pytest.mark.parametrize("extra", [0, 2, 8])
def test_dual_pipe(p: int, extra: int) -> None:
    m = 2 * p + extra
    run = simulate(dual_pipe(p, m))
    assert (run.makespan, set(run.peak)) == (3 * m + 2 * (p // 2 - 1), {p + 1})
    assert set(run.idle) == {p - 2}
    assert check(dual_pipe(p, m), ranks=p, stages=p, microbatches=m, replicas=2) == []


def test_dual_pipe_with_gain_of_overlap() -> None:
    assert max(simulate(dual_pipe(8, 20), Costs(overlap=2.0)).idle) == 3
    assert set(simulate(dual_pipe(8, 20), Costs(overlap=3.0)).idle) == {6}


LATE = [(gpipe, 39), (one_forward_one_backward, 49), (zb_h1, 41), (zb_h2, 30), (zbv, 65), (dual_pipe_v, 75)]


@pytest.mark.parametrize(("schedule", "wanted"), LATE)
def test_latency(schedule: Callable[[int, int], Program], wanted: float) -> None:
    assert span(schedule(4, 8), latency=1.0) == wanted


def test_latency_with_several_stages() -> None:
    assert span(interleaved_one_forward_one_backward(4, 8, 2), latency=1.0) == 71
    assert span(looped_bfs(4, 8, 2), latency=1.0) == 63
    assert span(interleaved_zero_bubble(4, 8, 2), latency=1.0) == 72
    assert span(one_forward_one_backward(4, 8), latency=0.5) == 41


def test_costs_that_differ() -> None:
    slow = [1.0, 1.0, 1.0, 2.0]
    run = simulate(one_forward_one_backward(4, 8), Costs(F=slow, I=slow, W=slow))
    assert (run.makespan, run.busy) == (57, (24, 24, 24, 48))
    assert run.bubble == pytest.approx(0.473684, abs=1e-6)
    run = simulate(zb_h1(4, 8), Costs(F=2, I=3, W=1, latency=0.25, kept=0.5))
    assert (run.makespan, run.peak) == (63, (4, 3.5, 3, 2.5))
    assert span(dual_pipe_v(4, 8), overlap=2.2, latency=0.1) == pytest.approx(47.6)


# Qi et al. 2024, times in ms: p, m, F, I, W, latency; rates of 1F1B, ZB-H1, ZB-H2.
MEASURED = [
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559),
    (8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672),
    (16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516),
    (16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266),
    (32, 96, 10.419, 10.284, 7.747, 0.408, 0.2646, 0.1421, 0.0641),
    (32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490),
    (32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0257),
]


@pytest.mark.parametrize("row", MEASURED)
def test_bubble_rates_of_the_paper(row: tuple[float, ...]) -> None:
    p, m = int(row[0]), int(row[1])
    costs = Costs(F=row[2], I=row[3], W=row[4], latency=row[5])
    for schedule, rate in zip((one_forward_one_backward, zb_h1, zb_h2), row[6:], strict=True):
        assert simulate(schedule(p, m), costs).skewless_bubble == pytest.approx(rate, abs=1.6e-4)


NAMED: list[Callable[[int, int], Program]] = [
    gpipe, one_forward_one_backward, zb_h1, zb_h2, zbv, dual_pipe_v,
    lambda p, m: interleaved_one_forward_one_backward(p, m, 2),
    lambda p, m: interleaved_zero_bubble(p, m, 3),
    lambda p, m: looped_bfs(p, m, 2),
]  # fmt: skip


@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
def test_lowered_programs_run_on_every_link(p: int) -> None:
    for schedule in NAMED:
        program = lower(schedule(p, 2 * p), max_active_stages=3, reduce_gradients=True)
        assert Program.from_text(str(program)) == program
        for model in LINK_MODELS:
            assert run_on_links(program, model) == []


def test_receives_put_off_deadlock_where_links_share_a_queue() -> None:
    program = lower(interleaved_one_forward_one_backward(2, 2, 2))
    deferred = []
    for actions in program:
        out, waiting = [], []
        for action in actions:
            if action.kind.startswith("RECV"):
                waiting.append(action)
                continue
            for receive in list(waiting):
                kinds = ("F",) if receive.kind == "RECV_F" else ("I", "B")
                if action.kind in kinds and (action.stage, action.microbatch) == (
                    receive.stage,
                    receive.microbatch,
                ):
                    out.append(receive)
                    waiting.remove(receive)
            out.append(action)
        deferred.append(out + waiting)
    dead = {model: bool(run_on_links(Program.of(deferred), model)) for model in LINK_MODELS}
    assert dead == {"eager": False, "edge": False, "pair": True, "one": True, "block": True}


def test_unsharding() -> None:
    ranks = Program.from_text("0F0,0F1,2F0,4F0,6F0,6B0,4B0,2B0,0B0,0B1")
    assert str(add_unsharding(ranks, 2)) == (
        "0UNSHARD,2UNSHARD,0F0,0F1,0RESHARD,4UNSHARD,2F0,2RESHARD,6UNSHARD,4F0,6F0,6B0,6RESHARD,2UNSHARD,4B0,4RESHARD,"
        "0UNSHARD,2B0,2RESHARD,0B0,0B1,0RESHARD"
    )


def test_what_cannot_end_names_every_rank() -> None:
    crossed = Program.from_text("0F0,0B0\n1B0,1F0")
    with pytest.raises(
        ScheduleError, match=r"rank 0 waits at 0B0 \(place 1\) for 1I0 of rank 1; rank 1 waits at 1B0"
    ):
        simulate(crossed)
    with pytest.raises(
        ScheduleError, match="malformed schedule: rank 0 waits at 0B0 for 1I0; rank 1 waits at 1B0"
    ):
        lower(crossed)


def test_bad_counts_are_refused() -> None:
    with pytest.raises(ScheduleError, match="wanted an even number of ranks, got 3"):
        dual_pipe(3, 8)
    with pytest.raises(ScheduleError, match="wanted an even number of microbatches, got 9"):
        dual_pipe(4, 9)
    with pytest.raises(ScheduleError, match="wanted at least 8 microbatches, twice the 4 ranks, got 7"):
        dual_pipe_v(4, 7)
    with pytest.raises(
        ScheduleError, match="9 microbatches on 4 ranks are 2 rounds, which do not divide them"
    ):
        interleaved_one_forward_one_backward(4, 9, 2)
    assert [span(interleaved_one_forward_one_backward(4, m, 2)) for m in (3, 6, 7, 10)] == [30, 45, 51, 69]
