"""Futures: one outcome, once; waiting, chaining, cancelling, awaiting."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
from concurrent.futures import CancelledError, InvalidStateError
from typing import Any

import pytest

from shardwise.backend.errors import FutureStateError, RpcError, RpcTimeoutError
from shardwise.rpc.future import Future, collect_all, hosted_thread, wait_all


def failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def later(future: Future[Any], value: object, seconds: float = 0.02) -> None:
    threading.Timer(seconds, future.set_result, (value,)).start()


def test_many_threads_wait_for_one_result() -> None:
    future: Future[int] = Future()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(future.wait(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    future.set_result(7)
    for thread in threads:
        thread.join(5)
    assert found == [7] * 8
    assert future.wait() == future.result() == future.value() == 7
    assert future.done()
    assert future.exception() is None


def test_a_failure_is_raised_by_each_wait_and_counts_as_done() -> None:
    error = ValueError("no")
    future = failed(error)
    for _ in range(3):
        with pytest.raises(ValueError, match="no") as caught:
            future.wait()
        assert caught.value is error
    assert future.done()
    assert future.exception() is error
    with pytest.raises(ValueError, match="no"):
        future.value()


def test_a_wait_ends_in_time_and_the_future_goes_on() -> None:
    future: Future[int] = Future()
    with pytest.raises(RpcTimeoutError, match=r"was not done within 0\.01 s"):
        future.wait(0.01)
    with pytest.raises(TimeoutError):
        future.exception(0)
    later(future, 3)
    assert future.wait(5) == 3


def test_value_before_the_end_and_a_second_outcome_are_refused() -> None:
    future: Future[int] = Future()
    with pytest.raises(InvalidStateError, match=r"call wait\(\)"):
        future.value()
    future.set_result(1)
    for again in (lambda: future.set_result(2), lambda: future.set_exception(ValueError())):
        with pytest.raises(
            FutureStateError, match="Future can only be marked completed once; it has a result already"
        ):
            again()
    assert not future.offer_result(5)
    assert future.wait() == 1


def test_set_exception_takes_exceptions_only() -> None:
    with pytest.raises(ValueError, match="takes an exception"):
        Future[int]().set_exception("no")  # type: ignore[arg-type]


def test_then_gets_the_completed_future_and_runs_for_failures() -> None:
    future: Future[int] = Future()
    seen: list[Future[int]] = []

    def follow(done: Future[int]) -> str:
        seen.append(done)
        return "fine"

    child = future.then(follow)
    grandchild = child.then(lambda done: done.value() + "!")
    assert not child.done()
    future.set_exception(KeyError("x"))
    assert seen == [future]
    assert grandchild.wait() == "fine!"


def test_then_fails_with_what_the_callback_raises_and_does_not_flatten() -> None:
    future: Future[int] = Future()
    future.set_result(1)
    assert isinstance(future.then(lambda done: done).wait(), Future)
    with pytest.raises(ZeroDivisionError):
        future.then(lambda done: done.value() // 0).wait()
    for attach in (future.then, future.add_done_callback):
        with pytest.raises(TypeError, match="takes a function"):
            attach(None)  # type: ignore[arg-type]


def test_then_runs_in_the_completing_thread_or_where_the_agent_says() -> None:
    threads: list[str] = []
    future: Future[int] = Future()
    future.add_done_callback(lambda _: threads.append(threading.current_thread().name))
    worker = threading.Thread(target=future.set_result, args=(1,), name="worker")
    worker.start()
    worker.join()
    handed: list[Any] = []
    pooled: Future[int] = Future(run=handed.append)
    child = pooled.then(lambda done: done.value() + 1)
    pooled.set_result(1)
    assert threads == ["worker"]
    assert not child.done()
    handed.pop()()
    assert child.wait() == 2


def test_what_a_done_callback_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    future: Future[int] = Future()
    future.add_done_callback(lambda _: 1 // 0)
    reached: list[int] = []
    future.add_done_callback(lambda done: reached.append(done.value()))
    with caplog.at_level(logging.ERROR):
        future.set_result(4)
    assert reached == [4]
    assert "a callback of a future failed" in caplog.text


def test_cancel_ends_it_once() -> None:
    told: list[bool] = []
    future: Future[int] = Future(on_cancel=lambda: told.append(True))
    assert future.cancel()
    assert not future.cancel()
    assert future.cancelled()
    assert told == [True]
    with pytest.raises(CancelledError):
        future.wait()
    with pytest.raises(FutureStateError, match="it was cancelled already"):
        future.set_result(1)


def test_it_can_be_awaited() -> None:
    async def program() -> tuple[int, int]:
        done: Future[int] = Future()
        done.set_result(1)
        pending: Future[int] = Future()
        later(pending, 2)
        return await done, await asyncio.wait_for(_awaited(pending), 5)

    assert asyncio.run(program()) == (1, 2)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(_awaited(failed(ValueError("no"))))


async def _awaited(future: Future[int]) -> int:
    return await future


def test_collect_all_gives_the_futures_and_fails_early() -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    together = collect_all(futures)
    for value, future in reversed(list(enumerate(futures))):
        assert not together.done()
        future.set_result(value)
    assert together.wait() == futures
    assert wait_all(futures) == [0, 1, 2]
    assert wait_all([]) == []
    never: Future[int] = Future()
    with pytest.raises(ValueError, match="first"):
        wait_all([never, failed(ValueError("first")), failed(KeyError("second"))])
    with pytest.raises(RpcTimeoutError):
        wait_all([never], timeout=0.01)
    with pytest.raises(ValueError, match="element 0 is a int"):
        collect_all([1])  # type: ignore[list-item]


def test_it_stays_in_its_process() -> None:
    with pytest.raises(RpcError, match="cannot pickle a Future"):
        pickle.dumps(Future[int]())


class Host:
    def __init__(self, forbids: bool = False) -> None:
        self.told: list[str] = []
        self.forbids = forbids

    def block(self) -> None:
        if self.forbids:
            raise RpcError("would deadlock")
        self.told.append("block")

    def unblock(self) -> None:
        self.told.append("unblock")


def test_whoever_owns_the_thread_hears_when_it_blocks() -> None:
    host = Host()
    future: Future[int] = Future()
    with hosted_thread(host):
        with pytest.raises(RpcTimeoutError):
            future.wait(0.001)
        later(future, 1)
        assert future.wait(5) == 1
        future.wait()  # nothing to block for
    assert host.told == ["block", "unblock"] * 2
    with hosted_thread(Host(forbids=True)), pytest.raises(RpcError, match="would deadlock"):
        Future[int]().wait()
    with pytest.raises(RpcTimeoutError):
        Future[int]().wait(0)
    assert host.told == ["block", "unblock"] * 2


def test_outcome_and_waiters_race_safely() -> None:
    for _ in range(300):
        future: Future[int] = Future()
        won: list[int] = []
        start = threading.Barrier(4)

        def offer(value: int, future: Future[int] = future, won: list[int] = won, start: Any = start) -> None:
            start.wait()
            if future.offer_result(value):
                won.append(value)

        threads = [threading.Thread(target=offer, args=(value,)) for value in range(3)]
        for thread in threads:
            thread.start()
        start.wait()
        assert future.wait(5) in range(3)
        for thread in threads:
            thread.join()
        assert won == [future.value()]
