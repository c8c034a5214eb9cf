"""The lane: what is issued when, in which order it ends, and that every work ends once."""

from __future__ import annotations

import threading
from collections.abc import Generator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.backend.errors import CollectiveError, CollectiveMismatchError, CollectiveTimeoutError
from shardwise.collectives.chain import Chain
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Finished, Pending
from shardwise.collectives.work import Work


class Scripted:
    """Pending in some phases, each of which ends after some tests; writes what it does to a log."""

    def __init__(self, name: str, phases: list[int], log: list[str]) -> None:
        self._name = name
        self._phases = list(phases)
        self._log = log
        self._log.append(f"{name}.0")
        self._phase = 0

    @property
    def open(self) -> bool:
        return len(self._phases) > 1

    def test(self) -> bool:
        if not self._phases:
            return True
        self._phases[0] -= 1
        if self._phases[0] > 0:
            return False
        self._phases.pop(0)
        if self._phases:
            self._phase += 1
            self._log.append(f"{self._name}.{self._phase}")
        return not self._phases

    def pause(self, waited: float, expected: float) -> None:
        """Do not wait."""


def work_of(lane: Lane, start: object, finish: object = lambda: None, timeout: float = 5.0) -> Work[object]:
    record = Record("all_reduce", 7, "world", 2, np.dtype("f"), (3,), place="train.py:12")
    return Work(lane, record, 1, timeout, start, finish)  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(0, 9), max_size=12),
)
def test_phases_are_issued_in_the_order_of_the_operations(scripts: list[list[int]], polls: list[int]) -> None:
    """The order must not depend on how often a rank tests between its calls."""
    log: list[str] = []
    lane, works = Lane(), []
    for i, phases in enumerate(scripts):
        work = work_of(lane, lambda i=i, phases=phases: Scripted(str(i), phases, log), lambda i=i: i)
        works.append(work)
        lane.submit(work)
        for _ in range(polls[i] if i < len(polls) else 0):
            lane.advance()
    assert [work.wait() for work in reversed(works)] == list(range(len(works)))[::-1]
    assert log == [f"{i}.{phase}" for i, phases in enumerate(scripts) for phase in range(len(phases))]
    assert len(lane) == 0


def test_what_follows_a_closed_operation_is_issued_at_once() -> None:
    log: list[str] = []
    lane = Lane()
    for name in "abc":
        lane.submit(work_of(lane, lambda name=name: Scripted(name, [99], log)))
    assert log == ["a.0", "b.0", "c.0"]


def test_a_work_ends_once_and_gives_the_same_each_time() -> None:
    lane, calls = Lane(), []
    work = work_of(lane, lambda: Scripted("a", [3], []), lambda: calls.append(1) or [1])
    lane.submit(work)
    assert repr(work) == "Work(all_reduce #7 of world, pending)"
    assert not work.is_completed()
    result = work.wait()
    assert work.wait() is result
    assert work.is_completed()
    assert calls == [1]
    assert repr(work) == "Work(all_reduce #7 of world, done)"
    assert work.record.end >= work.record.start


def test_a_failure_is_kept_and_does_not_stop_those_behind() -> None:
    lane = Lane()

    def broken() -> Pending:
        raise OSError("no link")

    first, second = work_of(lane, broken), work_of(lane, Finished, lambda: "fine")
    lane.submit(first)
    lane.submit(second)
    for _ in range(2):
        with pytest.raises(CollectiveError) as caught:
            first.wait()
        assert str(caught.value) == (
            "rank 1: all_reduce #7 of world, called at train.py:12, failed with OSError: no link"
        )
        assert isinstance(caught.value.__cause__, OSError)
    assert repr(first) == "Work(all_reduce #7 of world, failed)"
    assert second.wait() == "fine"


def test_an_error_of_ours_is_raised_as_it_is() -> None:
    class Mismatched(Finished):
        def test(self) -> bool:
            raise CollectiveMismatchError("ranks disagree")

    lane = Lane()
    work = work_of(lane, Mismatched)
    lane.submit(work)
    with pytest.raises(CollectiveMismatchError, match=r"^ranks disagree$"):
        work.wait()


def test_a_time_out_names_the_operation_and_leaves_it_pending() -> None:
    lane = Lane()
    work = work_of(lane, lambda: Scripted("a", [10_000], []))
    lane.submit(work)
    with pytest.raises(CollectiveTimeoutError) as caught:
        work.wait(0.001)
    assert str(caught.value) == (
        "rank 1: all_reduce #7 of world did not end within 0.001 s (float32[3], called at train.py:12): not "
        "all "
        "ranks have come. See that all of them call it, in the same order; or give it more time, by "
        "timeout= of "
        "wait or of the group."
    )
    work.wait()


def test_a_chain_is_open_until_its_last_link() -> None:
    log: list[str] = []

    def links() -> Generator[tuple[Pending, bool], None, None]:
        yield Scripted("a", [1], log), True
        yield Scripted("b", [1, 1], log), False
        log.append("end")

    chain = Chain(links())
    assert chain.open
    lane = Lane()
    lane.submit(work_of(lane, lambda: chain))
    after = work_of(lane, lambda: Scripted("c", [1], log))
    lane.submit(after)
    assert log == ["a.0"]
    after.wait()
    assert log == ["a.0", "b.0", "b.1", "end", "c.0"] or log == ["a.0", "b.0", "b.1", "c.0", "end"]
    assert not chain.open


def test_many_threads_share_a_lane() -> None:
    lane = Lane()
    works = [work_of(lane, lambda: Scripted("a", [3], []), lambda i=i: i) for i in range(40)]
    for work in works:
        lane.submit(work)
    got: list[object] = []
    threads = [
        threading.Thread(target=lambda part=part: got.extend(work.wait() for work in works[part::4]))
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(got) == list(range(40))  # type: ignore[type-var]
