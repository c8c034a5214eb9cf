"""Skip values in programs: written by lowering, checked, run on all links and on paper."""

from __future__ import annotations

import pytest

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining import Costs, LinkModel, Program, check, lower, run_on_links, simulate
from shardwise.pipelining.link import LINK_MODELS
from shardwise.pipelining.schedule.named import NAMED

TEXT = "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n2F0,2B0,2F1,2B1"


def named(name: str, ranks: int) -> Program:
    schedule = NAMED[name]
    per_rank = 1 if schedule.per_rank and schedule.per_rank[0] == 1 else 2
    return schedule.program(name, ranks, 2 * ranks, per_rank)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", NAMED)
def test_named_programs_with_skips_end_on_all_links(name: str, ranks: int) -> None:
    if name == "DualPipe" and ranks % 2:
        pytest.skip("DualPipe takes an even number of ranks")
    program = named(name, ranks)
    last = program.stages - 1
    skips = {0: tuple(sorted({last, max(1, last // 2)}))}
    if last > 1:
        skips[1] = (last,)
    lowered = lower(program, skips=skips)
    for model in LINK_MODELS:
        assert run_on_links(lowered, model) == []
    assert check(lowered, replicas=NAMED[name].replicas) == []
    assert Program.from_text(lowered.to_text()) == lowered
    owners = program.owners
    for source, targets in skips.items():
        for target in targets:
            apart = any(owners[source, i] != owners[target, i] for i in range(program.microbatches))
            assert (target in lowered.skips.get(source, ())) == apart


def test_a_skip_is_waited_for_forth_and_back() -> None:
    """The way past the middle stage is slow: forth it delays the last forward, back the first backward."""
    lowered = lower(Program.from_text(TEXT), skips={0: (2,)})

    def latency(source: int, target: int) -> float:
        return 10.0 if {source, target} == {0, 2} else 0.0

    run = simulate(lowered, Costs(latency=latency))
    starts = {str(span.action): span.start for spans in run.spans for span in spans}
    # 0F0 ends at 1 and its skip value arrives at 11; 2B0 takes 2, and its gradient is back at 24.
    assert starts["2F0"] == 11.0
    assert starts["0B0"] == 24.0
    assert run.makespan == max(span.end for spans in run.spans for span in spans)
    assert simulate(lowered).makespan == simulate(Program.from_text(TEXT)).makespan


def test_what_a_skip_takes_on_links_and_in_memory() -> None:
    run = simulate(lower(Program.from_text(TEXT), skips={0: (2,)}), Costs(message=2.0, skip=5.0))
    assert run.traffic == {(0, 1): 4.0, (0, 2): 10.0, (1, 0): 4.0, (1, 2): 4.0, (2, 0): 10.0, (2, 1): 4.0}
    received = run.memory(2).held["received"]
    assert max(received) >= 5.0
    assert received[-1] == 0.0


@pytest.mark.parametrize(
    ("wrong", "right", "finding"),
    [
        ("0SEND_F0>2,", "", "wanted one send and one receive, got 0 and 1"),
        (",0SEND_F0,0SEND_F0>2", ",0SEND_F0", "got 0 and 1"),
        ("2SEND_B0>0,", "", "got 0 and 1"),
        ("0RECV_B1<2,", "", "0I>01 of another rank has no RECV_B before"),
    ],
)
def test_a_skip_that_one_side_forgets_is_found(wrong: str, right: str, finding: str) -> None:
    text = lower(Program.from_text(TEXT), skips={0: (2,)}).to_text()
    assert wrong in text
    found = check(Program.from_text(text.replace(wrong, right, 1)))
    assert any(each.rule == "V7" for each in found)


def test_a_skip_goes_to_a_later_stage() -> None:
    with pytest.raises(ScheduleError, match=r"skips: values of stage 2 go to later stages of 3, got \(1,\)"):
        lower(Program.from_text(TEXT), skips={2: (1,)})


@pytest.mark.parametrize("model", LINK_MODELS)
def test_a_skip_in_the_wrong_order_stops(model: LinkModel) -> None:
    """The receiver asks for the skip value behind what depends on it: no link helps."""
    text = lower(Program.from_text(TEXT), skips={0: (2,)}).to_text().replace("2RECV_F0<0,", "")
    rows = text.splitlines()
    rows[2] += ",2RECV_F0<0"
    if model != "eager":
        assert run_on_links(Program.from_text("\n".join(rows)), model)
