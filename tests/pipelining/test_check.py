"""The checker: each rule finds exactly its breach, and named programs have none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Action
from shardwise.pipelining.checker.check import check, require_valid
from shardwise.pipelining.checker.finding import RULES
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.program import Program
from shardwise.pipelining.schedule.interleaved import interleaved_one_forward_one_backward
from shardwise.pipelining.schedule.single import gpipe, one_forward_one_backward, zb_h1
from shardwise.pipelining.simulation import simulate

GOOD = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"

# A program, arguments of check, and what is found: rule, rank, place, action, the beginning of the text.
BAD: list[tuple[str, dict[str, object], tuple[str, int | None, int | None, str], str]] = [
    ("0F0,0F1,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", {}, ("V1", 0, 2, "0F1"), "0F1 is there 2 times"),
    ("0F0,0F1,0B0\n1F0,1B0,1F1,1B1", {}, ("V1", 0, 1, "0F1"), "0I1 and 0W1, or 0B1 for both, is missing"),
    ("0F0,0F1,0B0,0I1\n1F0,1B0,1F1,1B1", {}, ("V1", 0, 1, "0F1"), "0W1 is missing"),
    ("0F0,0F1,0B0,0B1,0I1\n1F0,1B0,1F1,1B1", {}, ("V1", 0, 4, "0I1"), "0B1 is there too"),
    ("0B0,0F0\n", {}, ("V2", 0, 0, "0B0"), "F must come first, and 0F0 is at place 1"),
    ("0F0,0W0,0I0", {}, ("V2", 0, 1, "0W0"), "I must come first, and 0I0 is at place 2"),
    (GOOD, {"ranks": 3}, ("V4", None, None, "None"), "wanted 3 ranks, got actions of 2"),
    (GOOD, {"microbatches": 1}, ("V3", 0, 1, "0F1"), "there are 2 stages and 1 microbatches"),
    ("0F0,0F1,0B0\n1F0,1B0,1F1,1B1,0B1", {}, ("V3", 1, 4, "0B1"), "microbatch 1 of stage 0 is on rank 0"),
    ("0F0,0B0\n2F0,2B0", {}, ("V3", None, None, "None"), "stage 1 is on no rank"),
    ("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", {"format": "compute_only"},
     ("V5", 0, 1, "0SEND_F0"), "SEND_F is a transfer"),
    ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1", {}, ("V6", 0, 1, "0B0"),
     "rank 0 waits at 0B0 ← rank 1 1B0 (not issued) ← rank 1 at 1F1 ← rank 0 0F1 (not issued)"),
    ("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", {}, ("V7", 1, 0, "1F0"),
     "0F0 of another rank has no RECV_F before"),
    ("0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", {}, ("V7", 0, 0, "0SEND_F0"),
     "it is sent before it is computed"),
    ("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0", {}, ("V7", 0, 1, "0SEND_F0"), "stages 0 and 1 are both on rank 0"),
    ("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1SEND_B0", {}, ("V7", 1, 3, "1SEND_B0"),
     "wanted one send and one receive, got 2 and 1"),
    ("0UNSHARD,0F0,0RESHARD,0B0", {}, ("V8", 0, 3, "0B0"), "stage 0 is not gathered; UNSHARD comes first"),
    ("0UNSHARD,0F0,0UNSHARD,0B0,0RESHARD", {}, ("V8", 0, 2, "0UNSHARD"), "stage 0 is gathered already"),
    ("0UNSHARD,0F0,0B0", {}, ("V8", 0, 0, "0UNSHARD"), "stage 0 is never dropped"),
    ("0F0,0F1,0B0,0REDUCE_GRAD,0B1", {}, ("V9", 0, 3, "0REDUCE_GRAD"), "the gradients of stage 0 are"),
    ("0F0,0B0,0REDUCE_GRAD\n1F0,1B0", {}, ("V9", 1, 1, "1B0"), "stage 1 is never reduced"),
    ("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD", {}, ("V9", 0, 3, "0REDUCE_GRAD"), "stage 0 is reduced 2 times"),
    (GOOD, {"memory": [1, 1]}, ("V10", 0, 1, "0F1"), "activations take 2 here, and the cap is 1"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "where", "what"), BAD)
def test_each_rule_finds_its_breach(
    text: str, wanted: dict[str, object], where: tuple[str, int | None, int | None, str], what: str
) -> None:
    found = check(Program.from_text(text), **wanted)  # type: ignore[arg-type]
    match = [
        f for f in found if (f.rule, f.rank, f.place, str(f.action)) == where and f.what.startswith(what)
    ]
    assert match, "\n".join(map(str, found))
    if where[1] is not None:
        assert f"[{where[3]}]" in match[0].picture


def test_all_rules_are_tried() -> None:
    assert {where[0] for _, _, where, _ in BAD} == RULES.keys()


def test_a_good_program_passes() -> None:
    for program in (Program.from_text(GOOD), lower(Program.from_text(GOOD), 1, True)):
        assert check(program, ranks=2, stages=2, microbatches=2, memory=[2, 1]) == []
        require_valid(program)


def test_the_error_shows_place_and_circle() -> None:
    crossed = Program.from_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1")
    with pytest.raises(ScheduleError) as caught:
        require_valid(crossed)
    assert str(caught.value) == (
        "1 thing is wrong with this program:\n"
        "V6 rank 0, place 1 (0B0): rank 0 waits at 0B0 ← rank 1 1B0 (not issued) ← rank 1 at 1F1 ← "
        "rank 0 0F1 (not issued)\n"
        "rank 0 | 0F0 [0B0] 0F1 0B1\n"
        "rank 1 | 1F0 [1F1] 1B0 1B1"
    )


def test_links_that_share_a_queue() -> None:
    # The receiver takes the second message first: no harm where sends are buffered.
    text = (
        "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B1,0RECV_B0,0B1,0B0\n"
        "1RECV_F1,1RECV_F0,1F0,1F1,1B0,1B1,1SEND_B1,1SEND_B0"
    )
    program = Program.from_text(text)
    assert check(program, links=["eager"]) == []
    found = check(program)
    assert {f.rule for f in found} == {"V7"}
    assert [f.what.split("'")[1] for f in found] == ["edge", "pair", "one", "block"]


@given(st.integers(0, 10_000), st.sampled_from([gpipe, one_forward_one_backward, zb_h1]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_findings_are_those_of_a_run(seed: int, schedule: object) -> None:
    """Two actions of a rank change places: the checker objects exactly if the order matters."""
    rng = random.Random(seed)
    ranks = [list(actions) for actions in schedule(3, 4)]  # type: ignore[operator]
    rank = rng.randrange(3)
    i, j = rng.sample(range(len(ranks[rank])), 2)
    ranks[rank][i], ranks[rank][j] = ranks[rank][j], ranks[rank][i]
    program = Program.of(ranks)
    try:
        simulate(program)
        ends = True
    except ScheduleError:
        ends = False
    assert (check(program) == []) == ends


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_an_action_too_few_or_too_many_is_found(seed: int) -> None:
    rng = random.Random(seed)
    ranks = [list(actions) for actions in interleaved_one_forward_one_backward(2, 4, 2)]
    rank = rng.randrange(2)
    place = rng.randrange(len(ranks[rank]))
    if rng.random() < 0.5:
        del ranks[rank][place]
    else:
        ranks[rank].insert(rng.randrange(len(ranks[rank])), ranks[rank][place])
    found = check(Program.of(ranks))
    assert {"V1"} <= {f.rule for f in found}


def test_replicas() -> None:
    both = Program.of([
        [Action(0, "F", 0), Action(1, "F", 1), Action(1, "B", 1), Action(0, "B", 0)],
        [Action(0, "F", 1), Action(1, "F", 0), Action(1, "B", 0), Action(0, "B", 1)],
    ])  # fmt: skip
    assert check(both, replicas=2) == []
    assert "stage 0 is on ranks 0 and 1; wanted 1" in [f.what for f in check(both)]
