"""Actors take one call at a time, in each caller's order; generators run no further than their window."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ranks import remote
from ranks.cluster import EMPTY, counts, stores
from shardwise import rpc
from shardwise.backend.errors import ArgumentError


class Diary:
    """Notes calls, and whether two ran at once."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.inside = 0
        self.overlapped = False

    def write(self, who: int, number: int) -> int:
        self.inside += 1
        self.overlapped |= self.inside > 1
        rpc.rpc_sync(who, abs, (number,))  # gives others time
        self.entries.append((who, number))
        self.inside -= 1
        return number

    def read(self) -> tuple[list[tuple[int, int]], bool]:
        return self.entries, self.overlapped

    def fail(self) -> None:
        raise ValueError("no")

    @rpc.functions.async_execution
    def later(self, who: int) -> rpc.Future[int]:
        return rpc.rpc_async(who, abs, (-7,))


def write_many(rank: int, diary: Any, n: int) -> None:
    calls = [diary.rpc_async().write(rank, i) for i in range(n)]
    assert rpc.wait_all(calls) == list(range(n))


def test_calls_run_one_at_a_time_in_the_order_of_each_caller() -> None:
    for seed in range(60):
        stores.clear()
        simulation = rpc.Simulation(3, seed, loss=0.1, repeat=0.1)

        def program(_: int) -> None:
            diary = rpc.remote(1, Diary, ordered=True)
            others = [rpc.rpc_async(w, write_many, (w, diary, 6)) for w in (1, 2)]
            write_many(0, diary, 6)
            rpc.wait_all(others)
            entries, overlapped = diary.rpc_sync().read()
            assert not overlapped
            for who in range(3):
                assert [number for each, number in entries if each == who] == list(range(6))
            with pytest.raises(ValueError, match="no"):
                diary.rpc_sync().fail()
            assert diary.rpc_sync().later(2) == 7

        simulation.run(program, ranks=[0])
        assert counts(simulation) == [EMPTY] * 3


def test_without_order_calls_overlap() -> None:
    overlaps = 0
    for seed in range(20):

        def program(_: int) -> bool:
            diary = rpc.remote(1, Diary)
            write_many(0, diary, 6)
            entries, overlapped = diary.rpc_sync().read()
            return overlapped or entries != sorted(entries)

        overlaps += rpc.Simulation(2, seed).run(program, ranks=[0])[0]
    assert overlaps > 10


def test_a_call_that_is_lost_or_cannot_be_sent_stops_nobody() -> None:
    for seed in range(40):
        simulation = rpc.Simulation(2, seed, call_loss=0.2)

        def program(_: int) -> int:
            diary = rpc.remote(1, Diary, ordered=True, timeout=5)
            calls = [diary.rpc_async(30).write(1, i) for i in range(4)]
            with pytest.raises((AttributeError, TypeError)):
                diary.rpc_sync().write(1, threading.Lock())
            calls += [diary.rpc_async(30).write(1, i) for i in range(4, 8)]
            return sum(call.exception() is None for call in calls)

        simulation.run(program, ranks=[0])
        assert simulation.now < 100
        counts(simulation)


def test_actors_on_threads() -> None:
    def program(rank: int) -> None:
        if rank == 0:
            diary = rpc.remote(1, Diary, ordered=True)
            write_many(0, diary, 200)
            assert [number for _, number in diary.rpc_sync().read()[0]] == list(range(200))

    remote.on_workers(program, 2)


MADE: list[int] = []


def numbers(n: int, fails: bool = False) -> Iterator[int]:
    try:
        for i in range(n):
            MADE.append(i)
            yield i
        if fails:
            raise ValueError("no more")
    finally:
        MADE.append(-1)


class Shelf:
    def books(self, n: int) -> Iterator[str]:
        return (f"book {i}" for i in range(n))


@pytest.mark.parametrize("window", [1, 2, 3, 16])
def test_a_stream_gives_all_values_in_order_and_runs_ahead_no_further_than_its_window(window: int) -> None:
    for seed in range(20):
        MADE.clear()
        simulation = rpc.Simulation(2, seed, loss=0.1)

        def program(_: int) -> None:
            ahead = []
            for i, value in enumerate(rpc.stream(1, numbers, (40,), window=window)):
                assert value == i
                ahead.append(len(MADE) - i - 1)
                rpc.rpc_sync(1, abs, (1,))
            assert i == 39
            assert max(ahead) <= window

        simulation.run(program, ranks=[0])
        assert [*range(40), -1] == MADE
        assert counts(simulation) == [EMPTY] * 2


def test_a_stream_ends_early_and_with_its_error() -> None:
    simulation = rpc.Simulation(2, 1)

    def program(_: int) -> None:
        found = []
        with pytest.raises(ValueError, match="no more"):
            found.extend(rpc.stream(1, numbers, (5, True), window=4))
        assert found == list(range(5))
        MADE.clear()
        with rpc.stream(1, numbers, (1000,), window=4) as stream:
            assert next(stream) == 0
        assert list(stream) == []
        with pytest.raises(ArgumentError, match="window=0"):
            rpc.stream(1, numbers, (5,), window=0)
        assert list(rpc.remote(1, Shelf).stream(window=2).books(3)) == ["book 0", "book 1", "book 2"]

    simulation.run(program, ranks=[0])
    assert counts(simulation) == [EMPTY] * 2
    assert MADE[-1] == -1
    assert len(MADE) <= 6


def test_a_stream_under_async_for() -> None:
    async def consume() -> list[int]:
        return [value async for value in rpc.stream("w1", numbers, (30,), window=4)]

    def program(rank: int) -> None:
        if rank == 0:
            assert asyncio.run(consume()) == list(range(30))

    remote.on_workers(program, 2)
