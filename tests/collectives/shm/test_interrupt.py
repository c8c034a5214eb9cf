"""A rank that is interrupted while it is told how an operation goes on hears it again."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.swap import issue_all_to_all
from shardwise.collectives.shm import place
from shardwise.collectives.shm.channel import ShmChannel


@pytest.mark.mpi(min_size=2)
def test_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    n, group = c.world_size(), c.new_group()
    c.barrier(group)
    channel = group.channel
    assert isinstance(channel, ShmChannel)
    channel.follow({})  # all by MPI, once all have met
    run, interrupted = channel._run, []

    def interrupt(*args: int) -> int:
        status = run(*args)
        if status == place.WAITING or interrupted:
            return status
        interrupted.append(status)
        raise KeyboardInterrupt

    x = np.arange(n * 100_000.0) + c.rank()
    c.barrier(group)
    if c.rank() == 0:  # the others have begun, and wait
        time.sleep(0.2)
    # No thread in the background advances it, which would take the interrupt.
    work = issue_all_to_all(x, group, 0, None, None, None, None, itself, False)
    pending = getattr(work, "pending", None)  # there is none where all had come already
    if pending is not None:
        monkeypatch.setattr(pending, "_run", interrupt)
        with contextlib.suppress(KeyboardInterrupt):
            work.wait(20)
    part = np.arange(n * 100_000.0).reshape(n, -1)[c.rank()]
    assert np.array_equal(work.wait(20), np.concatenate([part + i for i in range(n)]))
