"""The verdict over what ranks reported."""

from __future__ import annotations

import pytest

from shardwise.launch.failure import Ending, blamed_rank, judge
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
    assert verdict.lines == [
        "shardwise run: rank 1 of 3 failed; the other rank was stopped:",
        "T\nValueError: boom",
    ]


def test_both_sides_of_a_mismatch_are_told_once() -> None:
    said = "ranks disagree on what they run together: rank 0 calls barrier(); rank 1 calls all_reduce()"
    sides = [
        failed(
            rank,
            1.0 + rank,
            text=f"T{rank}\n",
            type="CollectiveMismatchError",
            places=f"line {rank}",
            summary=f"errors.CollectiveMismatchError: operation #3 of world, on rank {rank}: {said}",
        )
        for rank in range(2)
    ]
    assert judge(sides, 2).lines == ["shardwise run: ranks 0-1 of 2 failed alike. The error of rank 0:", "T0"]


def test_a_mismatch_that_each_tells_of_two_is_told_once() -> None:
    said = "CollectiveMismatchError: ranks disagree on what they run together: rank 1 calls barrier(), rank"
    sides = [
        failed(
            rank,
            1.0 + rank,
            text=f"T{rank}\n",
            type="CollectiveMismatchError",
            places=f"line {rank}",
            summary=f"{said} {rank} calls all_reduce()",
        )
        for rank in (0, 2)
    ]
    assert judge(sides, 3).lines == ["shardwise run: ranks 0,2 of 3 failed alike. The error of rank 0:", "T0"]


@pytest.mark.parametrize("kind", ["signal", "lost"])
def test_who_died_first_is_known_from_those_that_waited(kind: str) -> None:
    """MPI may have ended it, but then they would have told of another."""
    died = "WorldAbortedError: rank 0 stopped waiting: rank 2 on b has died: its process ended."
    followers = [failed(rank, 1.0, type="WorldAbortedError", summary=died) for rank in (0, 1)]
    by_mpi = Ending(3, 0.5, 143, "signal")
    verdict = judge([*followers, by_mpi, Ending(2, 2.0, 143, kind)], 4)
    assert verdict.code == 143
    assert verdict.root is not None
    assert verdict.root.rank == 2
    assert verdict.lines[0].endswith("; the others were stopped")
    assert blamed_rank(followers[0]) == 2
    assert judge(followers, 4).root == followers[0]  # nothing else is known


def test_hosts_are_named_where_there_are_several() -> None:
    hosts = {0: "a", 1: "a", 2: "b", 3: "b"}

    def first_line(*endings: Ending, hosts: dict[int, str] = hosts) -> str:
        return judge(endings, 4, 1, hosts).lines[0]

    killed = [Ending(rank, 1.0, 137, "signal") for rank in range(4)]
    said = "killed by SIGKILL on b; the other rank was stopped: somebody killed it"
    assert first_line(killed[2]).startswith(f"shardwise run: rank 2 of 4 was {said}")
    assert first_line(killed[2], killed[3]).startswith(f"shardwise run: ranks 2-3 of 4 were {said}")
    assert " on " not in first_line(killed[1], killed[2]).partition(":")[2].partition(";")[0]
    assert " on " not in first_line(killed[2], hosts=dict.fromkeys(range(4), "a")).partition(";")[0]
    assert first_line(failed(3, 1.0)) == "shardwise run: rank 3 of 4 failed on b; the other rank was stopped:"


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


def timed_out(rank: int, time: float) -> Ending:
    return failed(
        rank, time, type="CollectiveTimeoutError", summary="CollectiveTimeoutError: rank 3 is missing"
    )


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (Ending(3, 9.0, 137, "signal"), 137),
        (Ending(3, 9.0, 3, "exit"), 3),
        (Ending(3, 9.0, 3, "exiting"), 3),
        (failed(3, 9.0), 1),
        (Ending(3, 9.0, 137, "lost"), 137),
        (Ending(3, 9.0, 137, "unreachable", text="far"), 137),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_those_who_waited_in_vain_are_not_the_cause(cause: Ending, code: int) -> None:
    followers = [
        timed_out(0, 1.0),
        failed(1, 0.5, type="WorldAbortedError"),
        Ending(2, 0.1, 143, "signal"),  # ended by MPI
        Ending(4, 0.1, 14, "exit"),  # ended by Open MPI's library
    ]
    verdict = judge([*followers, cause], 5)
    assert verdict.root == cause
    assert verdict.code == code
    assert verdict.alike == (3,)


def test_waiting_in_vain_is_the_cause_if_nothing_else_is() -> None:
    endings = [failed(1, 0.5, type="WorldAbortedError"), timed_out(0, 1.0), timed_out(2, 1.1)]
    verdict = judge(endings, 4, stopped=1)
    assert verdict.alike == (0, 2)
    assert verdict.lines[0] == "shardwise run: ranks 0,2 of 4 failed alike; the others were stopped:"


@pytest.mark.parametrize(
    "end",
    [(143, "signal"), (137, "lost"), (14, "exit")],
    ids=["SIGTERM", "lost", "alone"],
)
def test_whom_mpi_has_ended_was_stopped_too(end: tuple[int, str]) -> None:
    root = Ending(3, 1.0, 3, "exit")
    stopped = [Ending(rank, 2.0 + rank, *end) for rank in range(3)]
    for count in range(4):
        assert judge([*stopped[:count], root], 4, stopped=3 - count).lines == [
            "shardwise run: rank 3 of 4 exited with code 3; the others were stopped"
        ]


def test_who_failed_alike_was_not_stopped() -> None:
    endings = [failed(0, 1.0), failed(1, 1.1)]
    assert judge(endings, 2, stopped=1).lines[0] == "shardwise run: ranks 0-1 of 2 failed alike:"
    assert judge(endings, 3, stopped=2).lines[0] == (
        "shardwise run: ranks 0-1 of 3 failed alike; the other rank was stopped:"
    )
    left = [Ending(rank, 1.0, 75, "exit") for rank in (0, 1)]
    assert judge(left, 2, stopped=2).lines == ["shardwise run: ranks 0-1 of 2 exited with code 75"]


def test_a_class_of_the_user_follows_as_its_base_does() -> None:
    own = Ending(0, 1.0, 1, "failed", type="Mine", bases=("Mine", "WorldAbortedError"))
    assert judge([own, failed(1, 2.0)], 2).root == failed(1, 2.0)


def test_a_host_that_is_gone_is_named_once() -> None:
    endings = [Ending(rank, 1.0, 137, "unreachable", text="far") for rank in (2, 3)]
    assert judge(endings, 4, stopped=2).lines == [
        "shardwise run: ranks 2-3 of 4 cannot be reached any more (host far: it is down, or the link to it "
        "is); the others were stopped"
    ]
