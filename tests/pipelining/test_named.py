"""The table of names, V-Half and V-Min by their closed forms, and the classes over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import (
    Costs,
    Program,
    Schedule,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleInterleaved1F1B,
    ScheduleZBVZeroBubble,
    check,
    get_schedule_class,
    simulate,
)
from shardwise.pipelining.schedule.half import v_half, v_min
from shardwise.pipelining.schedule.named import NAMED, find_named
from shardwise.pipelining.schedules import SCHEDULES


@pytest.mark.parametrize("p", [3, 4, 5, 6, 8, 9])
@pytest.mark.parametrize("extra", [0, 5])
def test_v_half_and_v_min(p: int, extra: int) -> None:
    m = 2 * p + extra
    for program, idle, peak in (
        (v_half(p, m), 3 * p - 3 if p % 2 == 0 else 3 * p - 4, 2 * ((p + 2) // 2)),
        (v_min(p, m), 4 * p - 3 if p % 3 == 0 else 4 * p - 5, 2 * ((p + 4) // 3)),
    ):
        run = simulate(program)
        assert max(run.lengths) - 6 * m <= idle
        assert max(run.peak) <= peak


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (4, 12)])
def test_every_named_schedule_passes_the_checker(name: str, ranks: int, microbatches: int) -> None:
    named = NAMED[name]
    for per_rank in named.per_rank or (1, 2, 3):
        program = named.program(name, ranks, microbatches, per_rank)
        assert check(
            program, ranks=ranks, stages=ranks * per_rank, microbatches=microbatches,
            format="compute_only", replicas=named.replicas,
        ) == []  # fmt: skip


def test_names_are_those_of_the_classes() -> None:
    assert SCHEDULES.keys() == NAMED.keys()
    for name, kind in SCHEDULES.items():
        assert get_schedule_class(f"Schedule{name}".upper()) is kind
        assert kind.__name__ == f"Schedule{name}"
        assert kind(4, 8).n_microbatches == 8
    assert find_named("zb-v")[0] == "ZBVZeroBubble"
    with pytest.raises(ScheduleError, match=r"there is no schedule '2F2B'; wanted one of GPipe, 1F1B, "):
        get_schedule_class("2F2B")


def test_stages_of_a_rank() -> None:
    assert [ScheduleZBVZeroBubble(4, 8).stages_of(rank) for rank in range(4)] == [
        (0, 7),
        (1, 6),
        (2, 5),
        (3, 4),
    ]
    assert ScheduleInterleaved1F1B(2, 4, stages_per_rank=3).stages_of(1) == (1, 3, 5)
    with pytest.raises(ScheduleError, match="wanted a rank from 0 to 1, got 2"):
        Schedule1F1B(2, 2).stages_of(2)
    with pytest.raises(ScheduleError, match="DualPipeV: wanted 2 stages per rank, got 3"):
        ScheduleDualPipeV(2, 4, stages_per_rank=3)
    with pytest.raises(ScheduleError, match="got 3; stages per rank are told by stages_per_rank="):
        ScheduleDualPipeV(2, 4, 3)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="Schedule has no program of its own"):
        Schedule(2, 4)


def test_own_programs(tmp_path: Path) -> None:
    own = Schedule.from_actions(["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"])
    assert (own.ranks, own.n_microbatches, own.n_stages) == (2, 2, 2)
    assert own.lowered.has_transfers
    own.lowered.to_csv(tmp_path / "own.csv")
    again = Schedule.from_csv(tmp_path / "own.csv")
    assert again.program == again.lowered == own.lowered
    assert again.simulate(Costs(latency=1.0)).makespan == own.simulate(Costs(latency=1.0)).makespan
    assert repr(own) == "Schedule(ranks=2, n_microbatches=2, n_stages=2)"
    with pytest.raises(ScheduleError, match="V1 rank 0, place 1"):
        Schedule.from_actions("0F0,0F1,0B0\n1F0,1B0,1F1,1B1")


def test_old_files_of_pytorch(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("0F0,0B0,0W0\n1F0,1BW0\n")
    assert Program.from_csv(tmp_path / "old.csv", dialect="torch<2.6") == Program.from_text(
        "0F0,0I0,0W0\n1F0,1B0"
    )
    assert Schedule.from_csv(tmp_path / "old.csv", "compute_only", "torch<2.6").n_stages == 2
