"""Calls that were sent and not answered yet: their Futures, their time-outs, and room for more."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardwise.backend.errors import PeerDiedError, RpcTimeoutError
from shardwise.rpc.agent import Outgoing
from shardwise.rpc.future import Future

__all__ = ["Call", "Underway", "Window"]


@dataclass(slots=True, eq=False)
class Call:
    """One request that waits for its answer.

    Attributes
    ----------
    id : int
    outgoing : Outgoing
    future : Future
    timeout : float
        Seconds in all, 0 for never.
    left : float
        Seconds of them that were left when it entered.
    nbytes : int
        That it counts for in the window; 0 where it does not count.
    entered : float
    label : str
        What is called, for people.
    """

    id: int
    outgoing: Outgoing
    future: Future[Any]
    timeout: float
    left: float
    nbytes: int
    entered: float
    label: str


class Window:
    """What may be under way to one worker: so many calls and bytes, whose answers make room again.

    Parameters
    ----------
    calls, nbytes : int
        One call may be larger, when nothing else is under way.
    """

    def __init__(self, calls: int, nbytes: int) -> None:
        self._most_calls = calls
        self._most_bytes = nbytes
        self._calls = 0
        self._bytes = 0
        self._room = threading.Condition()
        self._closed = False

    def enter(self, nbytes: int, timeout: float | None) -> bool:
        """Wait until there is room, and take it; False if there was none in time."""
        with self._room:
            if not self._room.wait_for(lambda: self._closed or self._fits(nbytes), timeout):
                return False
            self._calls += 1
            self._bytes += nbytes
            return True

    def leave(self, nbytes: int) -> None:
        """Give the room back."""
        with self._room:
            self._calls -= 1
            self._bytes -= nbytes
            self._room.notify_all()  # the first to wait may be too large for what is free

    def close(self) -> None:
        """Let everybody in: there is nobody to answer any more."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _fits(self, nbytes: int) -> bool:
        if not self._calls:
            return True
        return self._calls < self._most_calls and self._bytes + nbytes <= self._most_bytes


class Underway:
    """All calls of one worker that wait for an answer. Any thread may call its methods.

    Parameters
    ----------
    wake : callable
        ``wake(seconds)`` has `expire` called on the io thread after some time.
    window : callable
        Gives the window of a worker.
    """

    def __init__(self, wake: Callable[[float], None], window: Callable[[int], Window]) -> None:
        self._wake = wake
        self._window = window
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        # Those with one time-out are over in the order in which they began: looking at the first is enough.
        self._by_timeout: dict[float, OrderedDict[int, Call]] = {}
        self._timeouts: dict[int, float] = {}
        self._woken = float("inf")  # when `expire` is to be called next

    def __len__(self) -> int:
        return len(self._timeouts)

    def begin(
        self, outgoing: Outgoing, future: Future[Any], timeout: float, waited: float, nbytes: int, label: str
    ) -> Call:
        """Enter a call, some of whose time was `waited` already."""
        left = max(1e-9, timeout - waited) if timeout else 0.0
        with self._lock:
            now = time.monotonic()
            call = Call(next(self._ids), outgoing, future, timeout, left, nbytes, now, label)
            self._timeouts[call.id] = left
            calls = self._by_timeout.get(left)
            if calls is None:
                calls = self._by_timeout[left] = OrderedDict()
            calls[call.id] = call
            wakes = left > 0 and now + left < self._woken
            if wakes:
                self._woken = now + left
        if wakes:
            self._wake(left)
        return call

    def end(self, id: int) -> Call | None:
        """Take a call out, and give its room back; None if it has ended before."""
        with self._lock:
            left = self._timeouts.pop(id, None)
            if left is None:
                return None
            calls = self._by_timeout[left]
            call = calls.pop(id)
            if not calls:
                del self._by_timeout[left]
        if call.nbytes:
            self._window(call.outgoing.to).leave(call.nbytes)
        return call

    def expire(self) -> None:
        """End the calls whose time is over. On the io thread."""
        now = time.monotonic()
        late: list[Call] = []
        nearest = float("inf")
        with self._lock:
            for left, calls in self._by_timeout.items():
                for call in calls.values() if left else ():
                    if call.entered + left > now:
                        nearest = min(nearest, call.entered + left)
                        break
                    late.append(call)
            self._woken = nearest
        if nearest < float("inf"):
            self._wake(nearest - now)
        for call in late:
            if self.end(call.id) is not None:
                call.future.offer_exception(RpcTimeoutError(_overdue(call)))

    def lost(self, peer: int, error: Callable[[Call], PeerDiedError]) -> None:
        """End all calls to a worker that is gone."""
        with self._lock:
            calls = [
                call
                for each in self._by_timeout.values()
                for call in each.values()
                if call.outgoing.to == peer
            ]
        for call in calls:
            if self.end(call.id) is not None:
                call.future.offer_exception(error(call))

    def all(self) -> list[Call]:
        """Give those that are under way."""
        with self._lock:
            return [call for each in self._by_timeout.values() for call in each.values()]


def _overdue(call: Call) -> str:
    agent, to = call.outgoing.agent, call.outgoing.to
    there = agent.workers[to]
    return (
        f"{call.label} from {agent.me.name} (worker {agent.me.id}) to {there.name} (worker {to}): RPC ran "
        f"for more than set timeout ({1000 * call.timeout:g} ms) and will now be marked with an error. It "
        f"may run on there; its answer is dropped. Give it more time by timeout=, or 0 for no limit."
    )
