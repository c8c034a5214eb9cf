"""The verdict over what ranks reported."""

from __future__ import annotations

import pytest

from shardwise.launch.failure import Ending, judge, rank_list
from shardwise.launch.link import fold_stacks


def failed(rank: int, time: float, text: str = "T\nValueError: boom\n", **more: str) -> Ending:
    given = {"type": "ValueError", "summary": "ValueError: boom", "places": "here"} | more
    return Ending(rank, time, 1, "failed", text=text, **given)


def test_nothing_failed() -> None:
    verdict = judge([], 4)
    assert (verdict.code, verdict.lines, verdict.root) == (0, [], None)


def test_the_first_in_time_is_the_root() -> None:
    later = failed(0, 2.0, summary="OSError: other", places="there")
    verdict = judge([later, failed(3, 1.0)], 4, stopped=2)
    assert verdict.root is not None
    assert verdict.root.rank == 3
    assert verdict.lines == [
        "shardwise run: rank 3 of 4 failed; the others were stopped:",
        "T\nValueError: boom",
        "shardwise run: then rank 0 failed with OSError: other",
    ]


def test_a_rank_that_only_followed_is_never_the_root() -> None:
    follower = failed(0, 1.0, type="WorldAbortedError", places="wait")
    interrupted = Ending(2, 0.5, 130, "interrupted")
    verdict = judge([follower, interrupted, failed(1, 2.0)], 3)
    assert verdict.root is not None
    assert verdict.root.rank == 1
    assert verdict.lines == ["shardwise run: rank 1 of 3 failed:", "T\nValueError: boom"]


def test_alike_at_one_place_with_other_words() -> None:
    endings = [failed(rank, 5.0 - rank, text=f"T\nValueError: boom {rank}\n") for rank in range(3)]
    assert judge(endings, 4, stopped=1).lines == [
        "shardwise run: ranks 0-2 of 4 failed alike; the other rank was stopped. The error of rank 0:",
        "T\nValueError: boom 0",
    ]


def test_one_rank_alone_needs_no_introduction() -> None:
    assert judge([failed(0, 1.0)], 1).lines == ["T\nValueError: boom"]
    assert judge([Ending(0, 1.0, 3, "exiting")], 1).lines == []
    assert judge([Ending(0, 1.0, 1, "exiting", text="usage")], 1).lines == ["usage"]
    killed = judge([Ending(0, 1.0, 137, "signal")], 1)
    assert killed.code == 137
    assert killed.lines[0].startswith(
        "shardwise run: the script was killed by SIGKILL: somebody killed it, or"
    )


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        (Ending(1, 1.0, 3, "exiting"), "rank 1 of 2 exited with code 3"),
        (Ending(1, 1.0, 5, "exit"), "rank 1 of 2 exited with code 5"),
        (Ending(1, 1.0, 128 + 15, "signal"), "rank 1 of 2 was killed by SIGTERM"),
        (Ending(1, 1.0, 128 + 63, "signal"), "rank 1 of 2 was killed by signal 63"),
        (Ending(1, 1.0, 137, "lost"), "rank 1 of 2 vanished without a word, as if killed by SIGKILL"),
        (Ending(1, 1.0, 130, "interrupted"), "rank 1 of 2 was interrupted"),
    ],
)
def test_each_kind_has_its_words(ending: Ending, line: str) -> None:
    verdict = judge([ending], 2)
    assert (verdict.code, verdict.lines) == (ending.code, [f"shardwise run: {line}"])


def test_ranks_are_written_briefly() -> None:
    assert rank_list([7]) == "rank 7"
    assert rank_list([3, 1, 2, 9, 5, 6]) == "ranks 1-3,5-6,9"


def test_stacks_at_one_place_are_shown_once() -> None:
    def stack(address: str, line: int) -> list[str]:
        return [
            f"Current thread {address} (most recent call first):",
            f'  File "s.py", line {line} in f',
            '  File "/any/where/launch/rank.py", line 90 in main',
        ]

    text = fold_stacks({0: stack("0x7f01", 3), 1: stack("0x7f02", 4), 2: stack("0x7f03", 3), 3: []})
    head = "Current thread (most recent call first):\n"
    assert text == (
        f'ranks 0,2:\n{head}  File "s.py", line 3 in f\n'
        f'rank 1:\n{head}  File "s.py", line 4 in f\n'
        "rank 3:\n  (it did not answer)"
    )
