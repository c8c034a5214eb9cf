"""Ranks as threads: results, failures, ranks that disagree, leave early or never come."""

from __future__ import annotations

import contextvars
import re
import threading
import time

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import (
    CollectiveError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    LaunchError,
    WorldAbortedError,
)

QUICK = 5.0  # seconds within which nothing here may hang


def test_results_come_in_rank_order() -> None:
    def body(rank: int, base: int, word: str) -> str:
        time.sleep(0.01 * (3 - rank))
        return f"{word}{base + rank}"

    assert c.run_threads(body, 3, (10, "r")) == ["r10", "r11", "r12"]


def test_no_ranks_are_refused() -> None:
    with pytest.raises(LaunchError, match=r"^run_threads: nprocs=0; wanted at least one rank\.$"):
        c.run_threads(lambda rank: None, 0)


def test_each_rank_runs_in_a_copy_of_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("outer")

    def body(rank: int) -> str:
        seen = variable.get()
        variable.set(f"inner {rank}")
        c.barrier()
        return f"{seen}, {variable.get()}"

    assert c.run_threads(body, 2) == ["outer, inner 0", "outer, inner 1"]
    assert variable.get() == "outer"


def test_nested_worlds() -> None:
    def inner(rank: int) -> int:
        return int(c.all_reduce(rank))

    def outer(rank: int) -> int:
        return sum(c.run_threads(inner, 3)) + int(c.all_reduce(rank))

    assert c.run_threads(outer, 2) == [10, 10]


@pytest.mark.parametrize("n", [1, 3])
def test_the_first_failure_is_raised_and_the_others_stop(n: int) -> None:
    stopped: list[str] = []

    def body(rank: int) -> None:
        if rank == n - 1:
            raise KeyError("boom")
        try:
            c.all_reduce(np.ones(3))
        except WorldAbortedError as error:
            stopped.append(str(error))
            raise

    began = time.monotonic()
    with pytest.raises(KeyError, match="boom") as caught:
        c.run_threads(body, n)
    assert time.monotonic() - began < QUICK
    assert caught.value.__notes__ == [f"raised by rank {n - 1} of {n}"]
    assert len(stopped) == n - 1
    for rank, message in enumerate(sorted(stopped)):
        assert re.fullmatch(
            rf"rank {rank} was stopped in all_reduce\(float64\[3\], op='sum'\): rank {n - 1} failed with "
            r"KeyError: 'boom'\. \(all_reduce #0 of world, called at .*test_crew\.py:\d+\)",
            message,
        ), message


def test_failures_of_their_own_become_notes() -> None:
    first = threading.Event()

    def body(rank: int) -> None:
        if rank == 1:
            try:
                raise ValueError("one")
            finally:
                first.set()
        first.wait(QUICK)
        time.sleep(0.05)
        raise OSError("zero")

    with pytest.raises(ValueError, match="one") as caught:
        c.run_threads(body, 2)
    assert caught.value.__notes__ == ["raised by rank 1 of 2", "rank 0 raised OSError: zero"]


def test_a_failure_stops_receives_and_works_too() -> None:
    def body(rank: int) -> None:
        if rank == 0:
            raise ValueError("boom")
        work = c.irecv((3,), "f", src=0) if rank == 1 else c.all_reduce(1, async_op=True)
        with pytest.raises(WorldAbortedError, match="rank 0 failed with ValueError: boom"):
            work.wait()
        raise WorldAbortedError("as it should be")

    with pytest.raises(ValueError, match="boom") as caught:
        c.run_threads(body, 3)
    assert caught.value.__notes__ == ["raised by rank 0 of 3"]


DISAGREEMENTS = {
    "operation": (
        lambda rank: c.barrier() if rank else c.all_reduce(np.ones(3)),
        {"all_reduce(float64[3], op='sum')", "barrier()"},
    ),
    "shape": (
        lambda rank: c.all_reduce(np.ones(3 + rank)),
        {"all_reduce(float64[3], op='sum')", "all_reduce(float64[4], op='sum')"},
    ),
    "dtype": (
        lambda rank: c.all_gather(np.ones(3, "fd"[rank])),
        {"all_gather(float32[3])", "all_gather(float64[3])"},
    ),
    "reduction": (
        lambda rank: c.all_reduce(np.ones(3), "max" if rank else "min"),
        {"all_reduce(float64[3], op='min')", "all_reduce(float64[3], op='max')"},
    ),
    "root": (
        lambda rank: c.broadcast(np.ones(3), src=rank),
        {"broadcast(float64[3], src=0)", "broadcast(float64[3], src=1)"},
    ),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_ranks_that_disagree_are_told_so(case: str) -> None:
    call, sides = DISAGREEMENTS[case]
    messages: list[str] = []

    def body(rank: int) -> None:
        with pytest.raises(CollectiveMismatchError) as caught:
            call(rank)
        messages.append(str(caught.value))

    c.run_threads(body, 2)
    assert len(messages) == 2
    for message in messages:
        assert message.startswith("ranks disagree on what they run together: rank ")
        assert all(side in message for side in sides)


def test_a_message_of_another_size() -> None:
    def body(rank: int) -> None:
        if rank == 0:
            c.send(np.ones((2, 2), np.float32), 1, tag=4)
        else:
            with pytest.raises(CollectiveMismatchError) as caught:
                c.recv((3,), np.float32, src=0, tag=4)
            assert str(caught.value) == (
                "rank 1 receives float32[3] from rank 0 with tag 4, which sent float32[2, 2]; "
                "send and receive the same shape and dtype."
            )

    c.run_threads(body, 2)


def test_a_rank_that_returns_early_is_named() -> None:
    def body(rank: int) -> None:
        if rank == 0:
            return
        c.all_gather(np.ones(2))

    began = time.monotonic()
    with pytest.raises(CollectiveError) as caught:
        c.run_threads(body, 2)
    assert time.monotonic() - began < QUICK
    assert re.fullmatch(
        r"rank 1 waits in all_gather\(float64\[2\]\), but rank 0 has returned without it; every rank of "
        r"the group must take part, in the same order\. "
        r"\(all_gather #0 of world, called at .*test_crew\.py:\d+\)",
        str(caught.value),
    )


def test_what_was_sent_before_returning_arrives() -> None:
    def body(rank: int) -> float:
        if rank == 0:
            c.send(np.ones(2), 1)
            return 0.0
        time.sleep(0.1)
        return float(c.recv((2,), float, src=0).sum())

    assert c.run_threads(body, 2) == [0.0, 2.0]


def test_a_rank_that_never_comes() -> None:
    done = threading.Event()

    def body(rank: int) -> None:
        if rank == 0:
            done.wait(QUICK)
            c.barrier()
            return
        group = c.get_group()
        with pytest.raises(
            CollectiveTimeoutError, match=r"rank 1: barrier #0 of world did not end within 0\.05 s"
        ):
            c.barrier(group, timeout=0.05)
        done.set()

    # The barrier that rank 1 gave up is still the first one, and rank 0 comes to it.
    c.run_threads(body, 2)


def test_the_time_out_of_a_group() -> None:
    def body(rank: int) -> None:
        group = c.new_group([0, 1], timeout=0.05)
        if rank == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"within 0\.05 s"):
                c.all_reduce(1, group=group)
        c.barrier(c.get_group([1, 0]))

    c.run_threads(body, 2)


def test_an_error_that_cannot_be_shown_stops_the_others_as_well() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def work(rank: int) -> None:
        if rank > 0:
            raise Mute
        c.barrier()

    with pytest.raises(Mute) as info:
        c.run_threads(work, 3)
    assert len(info.value.__notes__) == 2
    assert info.value.__notes__[0] in ("raised by rank 1 of 3", "raised by rank 2 of 3")
    assert info.value.__notes__[1].endswith("raised Mute, whose text could not be made")
