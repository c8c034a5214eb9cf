"""Why an operation does not end, from what the ranks say of themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shardwise.collectives.flight.account import Account, Call, Finding, account_of
from shardwise.collectives.flight.verdict import fold_stacks, verdict
from shardwise.collectives.ledger import Record

WAITING = Call("all_reduce", 4, "world", "float32[3]", "train.py:88", 30.0, None)
BEFORE = Call("barrier", 3, "world", "uint8[]", "train.py:80", 40.0, 31.0)
ELSEWHERE = Call("all_gather", 7, "ranks 1-2", "float32[8]", "eval.py:5", 29.0, None)
HEAD = "rank 0: all_reduce #4 of world did not end within 30 s (float32[3], called at train.py:88): "
ADVICE = (
    " See that all of them call it, in the same order (SHARDWISE_DEBUG=1 tells where they part); or give it "
    "more time, by timeout= of wait or of the group."
)


def answered(
    rank: int, issued: int, current: Call | None = None, last: Call | None = None, **more: Call
) -> Finding:
    return Finding(rank, "answered", Account(issued, more.get("asked"), current, last))


HERE = answered(0, 5, WAITING, WAITING, asked=WAITING)


@pytest.mark.parametrize(
    ("finding", "story"),
    [
        (
            answered(1, 4, None, BEFORE),
            "rank 1 is missing: the last operation, barrier #3 of world, called at train.py:80, ended "
            "31 s ago.",
        ),
        (
            answered(1, 4, ELSEWHERE, ELSEWHERE),
            "rank 1 is missing: since 29 s in all_gather #7 of ranks 1-2, called at eval.py:5.",
        ),
        (
            answered(1, 0, None, Call("barrier", 0, "ranks 1", "uint8[]", "a.py:1", 9.0, 8.0)),
            "rank 1 is missing, with nothing issued on this group: the last operation, barrier #0 of "
            "ranks 1, called at a.py:1, ended 8.0 s ago.",
        ),
        (answered(1, 0), "rank 1 is missing, with nothing issued at all."),
        (
            answered(1, 5, asked=Call("broadcast", 4, "world", "int64[2]", "train.py:90", 30.0, None)),
            "rank 1 calls broadcast (int64[2]) in its place, at train.py:90.",
        ),
        (Finding(1, "silent", seconds=12.0), "rank 1 is missing: silent since 12 s."),
        (Finding(1, "stopped", seconds=12.0), "rank 1 is missing: silent since 12 s, stopped by a signal."),
        (
            Finding(1, "held", seconds=12.0),
            "rank 1 is missing: silent since 12 s, with compiled code that holds the interpreter.",
        ),
        (Finding(1, "left", seconds=3.0), "rank 1 has left the world 3.0 s ago, without it."),
        (
            Finding(1, "dead", seconds=3.0, reason="its process ended without a word"),
            "rank 1 has died 3.0 s ago: its process ended without a word.",
        ),
        (Finding(1, "failed", seconds=3.0), "rank 1 has failed 3.0 s ago."),
        (
            Finding(1, "failed", Account(4, None, ELSEWHERE, ELSEWHERE), 3.0),
            "rank 1 is missing: since 29 s in all_gather #7 of ranks 1-2, called at eval.py:5.",
        ),
        (None, "rank 1 does not answer."),
    ],
)
def test_one_rank_keeps_another_waiting(finding: Finding | None, story: str) -> None:
    findings = {0: HERE} if finding is None else {0: HERE, 1: finding}
    assert verdict(WAITING, 0, (0, 1), 30.0, findings) == HEAD + story + ADVICE


def test_ranks_that_are_alike_are_told_of_together() -> None:
    findings = {
        0: HERE,
        1: Finding(1, "failed", HERE.account, 0.1),  # has lost patience as well
        2: answered(2, 4, ELSEWHERE, ELSEWHERE),
        3: Finding(3, "stopped", seconds=20.0),
        4: answered(4, 4, Call("all_gather", 7, "ranks 1-2", "float32[8]", "eval.py:5", 31.5, None)),
    }
    assert verdict(WAITING, 0, range(5), 30.0, findings) == (
        f"{HEAD}ranks 2,4 are missing: since 32 s in all_gather #7 of ranks 1-2, called at eval.py:5; "
        f"rank 3 is missing: silent since 20 s, stopped by a signal.{ADVICE}"
    )


def test_all_have_come() -> None:
    other = answered(1, 900, None, None)  # it has forgotten that one
    assert verdict(WAITING, 0, (0, 1), 30.0, {0: HERE, 1: other}) == (
        HEAD + "all ranks have come to it, so it is slow, or what carries it is stuck. Give it more time, by "
        "timeout= of wait or of the group; shardwise doctor looks at the network."
    )


def test_all_have_come_to_the_first() -> None:
    first = Call("all_reduce", 0, "world", "float32[3]", "train.py:88", 5.0, None)
    here, other = answered(0, 1, first, first, asked=first), answered(1, 1, first, first, asked=first)
    assert verdict(first, 0, (0, 1), 5.0, {0: here, 1: other}) == (
        "rank 0: all_reduce #0 of world did not end within 5 s (float32[3], called at train.py:88): all "
        "ranks have come to it, so it is slow, or what carries it is stuck. The first of a group connects "
        "it, and compiles kernels that are not kept yet: up to a minute. Give it more time, by timeout= of "
        "wait or of the group; shardwise doctor looks at the network."
    )


def test_a_message_is_not_numbered_alike() -> None:
    recv = Call("recv", 0, "1 -> 0", "float64[3]", "a.py:1", 5.0, None)
    sent = Call("all_reduce", 0, "world", "float64[3]", "a.py:9", 4.0, 3.5)
    said = verdict(recv, 0, (1,), 5.0, {1: answered(1, 0, None, sent, asked=recv)})
    assert said == (
        "rank 0: recv #0 of 1 -> 0 did not end within 5 s (float64[3], called at a.py:1): rank 1 is missing: "
        f"the last operation, all_reduce #0 of world, called at a.py:9, ended 3.5 s ago.{ADVICE}"
    )


def test_stacks_are_folded() -> None:
    findings = {
        3: Finding(3, "held", stacks="  in c\n"),
        0: Finding(0, "answered", Account(0, None, None, None, "  in a\n")),
        1: Finding(1, "answered", Account(0, None, None, None, "  in a\n")),
        2: Finding(2, "silent"),
    }
    assert fold_stacks(findings) == "Where the ranks are:\nranks 0-1:\n  in a\nrank 3:\n  in c"
    assert fold_stacks({}) == ""


def test_an_account_goes_over_the_wire() -> None:
    records = [Record("all_reduce", seq, "world", 2, np.dtype("f"), (3,), place="a.py:1") for seq in range(3)]
    records[0].end = records[0].start
    account = account_of(records, "world", 1, 3, "  in f\n")
    assert account.asked is not None
    assert (account.asked.seq, account.asked.what) == (1, "float32[3]")
    assert account.current is not None
    assert account.last is not None
    assert (account.current.seq, account.last.seq) == (1, 2)
    assert Account.decode(json.loads(json.dumps(account.encode()))) == account
    empty = account_of([], "world", 0, 0, "")
    assert Account.decode(json.loads(json.dumps(empty.encode()))) == empty
    with pytest.raises(ValueError, match="no account"):
        Account.decode({"issued": "many"})
