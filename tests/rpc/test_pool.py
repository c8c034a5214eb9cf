"""The pool: as many threads as asked for, one more for each that waits, and none too many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from shardwise.errors import RpcError
from shardwise.rpc.future import Future, hosted_thread
from shardwise.rpc.serving.pool import IoThread, Pool
from shardwise.rpc.serving.underway import Window


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_it_runs_so_many_at_once_and_no_more() -> None:
    pool = Pool("test", 3, 100)
    gate, running = threading.Event(), []
    for number in range(10):
        pool.submit(lambda number=number: (running.append(number), gate.wait(10)))
    until(lambda: len(running) == 3)
    time.sleep(0.05)
    assert len(running) == pool.threads == 3
    assert pool.queued == 7
    gate.set()
    until(lambda: len(running) == 10)
    assert pool.close(5)


def test_a_thread_that_waits_is_made_up_for() -> None:
    pool = Pool("test", 1, 100)
    gates: list[Future[int]] = [Future() for _ in range(20)]
    done: list[int] = []
    for gate in gates:
        pool.submit(lambda gate=gate: done.append(gate.wait()))
    until(lambda: pool.blocked == 20)
    for number, gate in enumerate(gates):
        gate.set_result(number)
    until(lambda: len(done) == 20)
    until(lambda: pool.threads <= 2)  # those that made up go again
    assert pool.close(5)


def test_there_is_a_limit_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("test", 1, 3)
    gate: Future[int] = Future()
    for _ in range(5):
        pool.submit(gate.wait)
    until(lambda: pool.blocked == 3)
    until(lambda: "all 3 threads of test wait for other calls" in caplog.text)
    gate.set_result(1)
    until(lambda: pool.queued == 0)
    assert pool.close(5)


def test_a_job_that_fails_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("test", 1, 2)
    done = threading.Event()
    pool.submit(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    pool.submit(done.set)
    assert done.wait(5)
    assert "a job of test failed" in caplog.text
    assert pool.close(5)


def test_the_io_thread_must_not_wait() -> None:
    with hosted_thread(IoThread()), pytest.raises(RpcError, match="must not wait for a Future"):
        Future[int]().wait(1)


def test_a_window_lets_in_what_fits() -> None:
    window = Window(2, 100)
    assert window.enter(500, 0.0)  # alone, anything goes
    assert not window.enter(1, 0.01)
    window.leave(500)
    assert window.enter(50, 0.0)
    assert window.enter(50, 0.0)
    assert not window.enter(0, 0.01)  # a third call
    window.leave(50)
    assert not window.enter(51, 0.01)
    window.close()
    assert window.enter(10_000, 0.0)
