"""The flight record, and the verdict among ranks that are threads."""

from __future__ import annotations

import json
import math
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveTimeoutError, LaunchError

QUICK = 10.0  # seconds: an upper bound where something is waited for


def test_the_record_of_this_rank() -> None:
    def body(rank: int) -> None:
        c.all_reduce(np.ones(3), "max")
        c.broadcast(np.ones((2, 2), np.float32), src=1)
        work = c.irecv((3,), src=1 - rank)
        records = c.flight_record()
        assert [(each.op, each.seq, each.group, each.how) for each in records] == [
            ("all_reduce", 0, "world", "max"),
            ("broadcast", 1, "world", 1),
            ("recv", 0, f"{1 - rank} -> {rank}", 1 - rank),
        ]
        assert [math.isnan(each.end) for each in records] == [False, False, True]
        assert re.search(r"test_flight.py:\d+$", records[0].source)
        c.isend(np.ones(3, np.float32), 1 - rank)
        work.wait()

    c.run_threads(body, 2)


def test_a_rank_thread_that_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_FLIGHT_DIR", str(tmp_path))
    done = threading.Event()

    def absent() -> None:
        done.wait(QUICK)

    def body(rank: int) -> None:
        c.init(timeout=0.1)
        c.barrier()
        if rank == 2:
            absent()
            return
        with pytest.raises(CollectiveTimeoutError) as caught:
            c.all_reduce(np.ones(3, np.float32), group=c.get_group([0, 1, 2]) if rank else None)
        said, _, stacks = str(caught.value).partition("\n")
        assert re.fullmatch(
            rf"rank {rank}: all_reduce #1 of world did not end within 0\.1 s \(float32\[3\], called at "
            r".*test_flight\.py:\d+\): rank 2 is missing: the last operation, barrier #0 of world, called at "
            r".*test_flight\.py:\d+, ended \d\.\d s ago\. See that all of them call it, in the same order "
            r"\(SHARDWISE_DEBUG=1 tells where they part\); or give it more time, by timeout= of wait or of "
            r"the group\.",
            said,
        )
        assert stacks.startswith("Where the ranks are:\nrank")
        assert re.search(
            r'rank 2:\n(.*\n)*  File .*test_flight\.py", line \d+, in absent\n    done.wait', stacks
        )
        kept = json.loads((tmp_path / f"flight-{rank}.json").read_text())
        assert [each["op"] for each in kept["operations"]] == ["barrier", "all_reduce"]
        meeting.wait()
        done.set()

    meeting = threading.Barrier(2, timeout=QUICK)
    # The operation that two have given up is still the first one; the third returns without it.
    c.run_threads(body, 3)


def test_the_time_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def timeout(rank: int) -> float:
        return c.get_world().timeout

    monkeypatch.setenv("SHARDWISE_TIMEOUT", "7.5")
    assert c.run_threads(timeout, 2) == [7.5, 7.5]
    assert c.run_threads(lambda rank: c.init(timeout=3).timeout, 1) == [3]
    monkeypatch.setenv("SHARDWISE_TIMEOUT", "-1")
    with pytest.raises(LaunchError) as caught:
        c.run_threads(timeout, 1)
    assert str(caught.value) == "SHARDWISE_TIMEOUT='-1'; wanted a positive number of seconds."
