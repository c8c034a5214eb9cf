"""The thread that advances what nobody waits for."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Finished
from shardwise.collectives.progress import Progress
from shardwise.collectives.work import Work


class Slow(Finished):
    """Ends at the tenth test."""

    def __init__(self) -> None:
        self.tests = 0

    def test(self) -> bool:
        self.tests += 1
        return self.tests >= 10


def comes_true(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


def watched(progress: Progress, attended: bool = False) -> tuple[Lane, Work[None]]:
    lane = Lane()
    lane.attended = attended
    record = Record("barrier", 0, "world", 1, np.dtype("B"), ())
    work = Work(lane, record, 0, 5.0, Slow, lambda: None)
    lane.submit(work)
    progress.watch(lane)
    return lane, work


def test_a_lane_is_advanced_until_it_is_empty() -> None:
    progress = Progress()
    assert not any(thread.name == "shardwise-progress" for thread in threading.enumerate())
    lanes = [watched(progress) for _ in range(3)]
    assert comes_true(lambda: not any(len(lane) for lane, _ in lanes))
    assert not any(math.isnan(work.record.end) for _, work in lanes)
    late, _ = watched(progress)
    assert comes_true(lambda: len(late) == 0)
    progress.close()
    assert not any(thread.name == "shardwise-progress" for thread in threading.enumerate())


def test_an_attended_lane_is_left_to_who_attends_it() -> None:
    progress = Progress()
    lane, work = watched(progress, attended=True)
    time.sleep(0.03)
    assert len(lane) == 1
    lane.attended = False
    assert comes_true(lambda: len(lane) == 0)
    assert work.is_completed()
    progress.close()


def test_closing_twice_and_before_use() -> None:
    progress = Progress()
    progress.close()
    progress.close()
    lane, _ = watched(progress)
    assert len(lane) == 1


@pytest.mark.mpi(min_size=2)
def test_several_phases_go_on_while_nobody_waits() -> None:
    """A reduction that MPI does not know ends by itself on every rank."""
    work = c.all_reduce(np.ones(1 << 20, np.float16), async_op=True)
    assert comes_true(lambda: not math.isnan(work.record.end))
    assert (work.wait() == c.world_size()).all()
