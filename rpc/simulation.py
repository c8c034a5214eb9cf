"""A group of workers in one process, whose messages are late, lost, repeated and out of order by a seed.

Everything that runs is a task; one runs at a time, and what runs next is drawn from the seed. So a program
gives the same run for the same seed, and another for another, in a time of its own that costs none.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.rpc.agent import Agent
from shardwise.rpc.call import attach_calls
from shardwise.rpc.current import entered_agent
from shardwise.rpc.future import Future, waiting_thread
from shardwise.rpc.objects import join_objects
from shardwise.rpc.simulated_agent import SimulatedAgent
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["Simulation"]

T = TypeVar("T")


class Simulation:
    """`n` workers, ``worker0`` and on, in this process; `run` runs a program on them.

    Parameters
    ----------
    n : int
    seed : int
        Of all that is random here.
    delay : float
        Longest time that a message takes, in seconds; each is drawn from 0 up, so that they overtake each
        other.
    loss : float
        Probability that a control message, or its answer, is lost. Calls of users' functions never are,
        unless `call_loss` says so.
    repeat : float
        Probability that a control message arrives twice.
    call_loss : float
        Probability that a call, or its answer, is lost for good, and its sender learns that it was.

    Examples
    --------
    >>> from shardwise import rpc
    >>> def program(rank):
    ...     return rpc.remote((rank + 1) % 3, max, args=(rank, 1)).to_here()
    >>> Simulation(3, seed=5, loss=0.2).run(program)
    [1, 1, 2]
    """

    def __init__(
        self,
        n: int,
        seed: int = 0,
        delay: float = 1.0,
        loss: float = 0.0,
        repeat: float = 0.0,
        call_loss: float = 0.0,
    ) -> None:
        for name, chance in (("loss", loss), ("repeat", repeat), ("call_loss", call_loss)):
            if not 0 <= chance < 1:
                raise ArgumentError(f"Simulation: {name}={chance}; wanted a probability from 0 to below 1")
        self.rng = random.Random(seed)
        self.delay, self.loss, self.repeat, self.call_loss = delay, loss, repeat, call_loss
        self.now = 0.0
        self.dead: set[int] = set()
        self._cuts: list[tuple[frozenset[int], float, float]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._baton = _Baton()
        workers = [WorkerInfo(f"worker{id}", id) for id in range(n)]
        self.agents: list[SimulatedAgent] = [SimulatedAgent(self, worker, workers) for worker in workers]
        for agent in self.agents:
            attach_calls(agent)
            join_objects(agent)

    # ---- what a test does

    def run(self, program: Callable[[int], T], ranks: Iterable[int] | None = None) -> list[T]:
        """Call ``program(rank)`` on each worker, go on until nothing is left to do, and give the results.

        Raises
        ------
        Exception
            What a program has raised.
        RpcError
            If a program waits for something that will not come.
        """
        chosen = range(len(self.agents)) if ranks is None else list(ranks)
        futures: list[Future[T]] = []
        for rank in chosen:
            future: Future[T] = Future()
            futures.append(future)
            self.start(self.agents[rank], _completing(future, program, rank))
        self.drain()
        stuck = [rank for rank, future in zip(chosen, futures, strict=True) if not future.done()]
        failed = [future for future in futures if future.done() and future.exception() is not None]
        if failed:
            failed[0].wait()
        if stuck:
            raise RpcError(f"the program waits for ever on worker {', '.join(map(str, stuck))}")
        return [future.value() for future in futures]

    def drain(self) -> None:
        """Go on until nothing is left to do."""
        while self._events:
            self.now, _, event = heappop(self._events)
            event()

    def cut(self, ranks: Iterable[int], begin: float, end: float) -> None:
        """Let nothing through between `ranks` and the others from `begin` to `end`, in seconds of the
        simulation.

        Control messages are lost then, and calls come through afterwards.
        """
        self._cuts.append((frozenset(ranks), begin, end))

    def kill(self, rank: int) -> None:
        """End a worker without a word; the others hear of it after a while."""
        self.dead.add(rank)
        for agent in self.agents:
            if agent.me.id != rank:
                self.at(self.rng.uniform(0, 2 * self.delay), lambda agent=agent: agent.hear_death(rank))  # type: ignore[misc]

    # ---- what agents do

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Have `event` happen some time from now."""
        heappush(self._events, (self.now + seconds, next(self._order), event))

    def transit(self, src: int, to: int) -> float | None:
        """Draw how long a message takes; None if a cut stops it."""
        arrival = self.now + self.rng.uniform(0, self.delay)
        for ranks, begin, end in self._cuts:
            if (src in ranks) != (to in ranks) and begin <= arrival < end:
                return None
        return arrival - self.now

    def heals(self) -> float:
        """Give how long it takes until no cut is left."""
        return max(0.0, *(end - self.now for _, _, end in self._cuts)) if self._cuts else 0.0

    def start(self, agent: Agent, task: Callable[[], None]) -> None:
        """Have `task` run on a thread of its own, of that worker, at a time of the seed's choice."""
        self.at(self.rng.uniform(0, self.delay / 100), lambda: self._begin(agent, task))

    def _begin(self, agent: Agent, task: Callable[[], None]) -> None:
        if agent.me.id in self.dead:
            return

        def work() -> None:
            with entered_agent(agent), waiting_thread(self._wait):
                task()

        self._baton.lend(work)

    def _wait(self, future: Future[Any], timeout: float | None) -> None:
        """Let others run until `future` is done, or so much time has gone by."""
        turn = self._baton.ticket()
        woken = False

        def wake(_: object = None) -> None:
            nonlocal woken
            if not woken:
                woken = True
                self.at(0.0, lambda: self._baton.give(turn))

        future.on_done(wake)
        if timeout is not None:
            self.at(timeout, wake)
        self._baton.give_back(turn)


class _Baton:
    """Sees to it that one thread runs at a time: the one that drains, or one that it has given way to."""

    def __init__(self) -> None:
        self._returned = threading.Semaphore(0)

    def lend(self, work: Callable[[], None]) -> None:
        """Run `work` on a thread until it ends or waits."""

        def body() -> None:
            try:
                work()
            finally:
                self._returned.release()

        threading.Thread(target=body, daemon=True, name="simulated").start()
        self._returned.acquire()

    @staticmethod
    def ticket() -> threading.Semaphore:
        return threading.Semaphore(0)

    def give_back(self, turn: threading.Semaphore) -> None:
        """Let the draining thread go on, and wait until it gives `turn`."""
        self._returned.release()
        turn.acquire()

    def give(self, turn: threading.Semaphore) -> None:
        """Let the thread that waits for `turn` go on until it ends or waits again."""
        turn.release()
        self._returned.acquire()


def _completing(future: Future[T], program: Callable[[int], T], rank: int) -> Callable[[], None]:
    def task() -> None:
        try:
            result = program(rank)
        except BaseException as error:
            future.offer_exception(error)
        else:
            future.offer_result(result)

    return task
