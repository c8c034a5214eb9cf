"""Ctrl-C at any moment: what was handed over stays in order, what is waited for ends at once."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveTimeoutError
from shardwise.collectives.ending.interrupt import Interrupts

SECONDS = 20.0


def interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C at this place does."""
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(signal.SIGINT, frame)


@contextmanager
def alarms_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def calm() -> None:
    """Stop the alarm, and wait until an interrupt that is held back has come."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    while c.get_world().interrupts.is_held:
        time.sleep(1e-4)
    time.sleep(2e-3)


def busy(seconds: float, log: list[str]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    log.append("whole")


def idle(seconds: float, log: list[str]) -> None:
    busy(seconds, log)
    time.sleep(5.0)
    log.append("never interrupted")


def test_it_is_held_back_within_the_given_functions_alone() -> None:
    interrupts, log, before = Interrupts([busy.__code__], lambda: None), [], signal.getsignal(signal.SIGINT)
    interrupts.install()
    try:
        with alarms_interrupt():
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                idle(0.1, log)
            assert log == ["whole"]
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                time.sleep(5.0)
    finally:
        interrupts.close()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_last_to_take_it_over_keeps_it() -> None:
    interrupts, before = Interrupts([busy.__code__], lambda: None), signal.getsignal(signal.SIGINT)
    try:
        interrupts.install()
        signal.signal(signal.SIGINT, interrupt)
        interrupts.close()
        assert signal.getsignal(signal.SIGINT) is interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_thread_leaves_it_alone() -> None:
    interrupts, before = Interrupts([busy.__code__], lambda: None), signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupts.install)
    thread.start()
    thread.join()
    interrupts.close()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("sizes", [(1, 200, 20_000), (1_500_000,)], ids=["small", "large"])
def test_what_follows_an_interrupt_is_right(sizes: tuple[int, ...]) -> None:
    """A call that raised counts if `issued` says so; otherwise it was not made, and is made again."""
    rank, n = c.rank(), c.world_size()
    group, shared, own = c.new_group(timeout=SECONDS), random.Random(3), random.Random(rank)
    c.barrier(group)
    with alarms_interrupt():
        for step in range(150 if len(sizes) > 1 else 8):
            kind, size, asynchronous = shared.randrange(3), shared.choice(sizes), shared.random() < 0.3
            x = np.full(size, rank + step, np.float32)
            total = np.float32(sum(range(n)) + n * step)
            got = None
            before = group.issued
            while group.issued == before:
                try:
                    signal.setitimer(signal.ITIMER_REAL, own.choice((0.0, own.uniform(1e-5, 3e-4))))
                    if kind == 0:
                        got = c.all_reduce(x, group=group)
                    elif kind == 1:
                        got = c.all_gather(x, group).reshape(n, size).sum(0)
                    elif asynchronous:
                        c.all_reduce(x, group=group, async_op=True)  # nobody waits for it
                    else:
                        got = np.float32(sum(c.all_gather_object(rank + step, group)))
                    calm()
                except KeyboardInterrupt:  # one for each alarm
                    got = None
            assert got is None or np.all(got == total), (step, kind, size)
        c.barrier(group)


@pytest.mark.mpi(min_size=2)
def test_a_wait_that_was_given_up_holds_up_nobody() -> None:
    """The others still need this rank's part of it, while this one waits for them in another group."""
    rank = c.rank()
    group, other = c.new_group(timeout=SECONDS if rank else 0.1), c.new_group(timeout=SECONDS)
    c.barrier(group, SECONDS)
    c.barrier(other)
    x = np.arange(300_000, dtype=np.float32)
    if rank == 0:
        with pytest.raises(CollectiveTimeoutError):
            c.all_reduce(x, group=group)
    else:
        time.sleep(0.5)
        assert np.array_equal(c.all_reduce(x, group=group), x * c.world_size())
    assert c.all_reduce(np.ones(1), group=other) == c.world_size()
