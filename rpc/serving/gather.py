"""Collectives over the calls themselves: for control, and for workers that are not in a group of ranks."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from shardwise.backend.errors import ArgumentError, RpcError
from shardwise.rpc.agent import Agent, Request
from shardwise.rpc.destination import find_worker
from shardwise.rpc.future import Future

__all__ = ["GATHER", "Gathering", "attach_gathering", "gather_bytes"]

GATHER = "gather"
"""The kind of its messages, which count for nothing when it is asked whether all calls have ended."""


class Gathering:
    """What one worker knows of gatherings: how many it has entered, and those that it leads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered: dict[tuple[str, ...], int] = {}
        self._open: dict[tuple[tuple[str, ...], int], _Meeting] = {}

    def enter(self, names: tuple[str, ...]) -> int:
        """Give the number of the next gathering of these workers."""
        with self._lock:
            number = self._entered[names] = self._entered.get(names, 0) + 1
            return number

    def take(self, request: Request) -> Future[dict[str, bytes]]:
        """Take the part of one worker; the Future is done when all have come."""
        names, number, data = request.payload
        name = request.incoming.agent.workers[request.src].name
        with self._lock:
            meeting = self._open.setdefault((names, number), _Meeting())
            meeting.parts[name] = data
            if len(meeting.parts) == len(names):
                del self._open[names, number]
        if len(meeting.parts) == len(names):
            meeting.future.offer_result(meeting.parts)
        return meeting.future


class _Meeting:
    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.future: Future[dict[str, bytes]] = Future()


def attach_gathering(agent: Agent) -> None:
    """Have an agent serve gatherings."""
    gathering = agent.parts[Gathering] = Gathering()
    agent.on(GATHER, gathering.take, "io")


def gather_bytes(
    agent: Agent, data: bytes, names: Iterable[str] | None = None, timeout: float | None = 0.0
) -> dict[str, bytes]:
    """Give all of some workers what each of them has; all of them call it, equally often.

    Parameters
    ----------
    agent : Agent
    data : bytes
    names : iterable of str, optional
        By default all workers; this one must be among them.
    timeout : float
        Seconds, 0 for no limit, None for the default of calls.

    Returns
    -------
    dict of str to bytes
        By name.
    """
    members = tuple(sorted({worker.name for worker in agent.workers} if names is None else set(names)))
    if agent.me.name not in members:
        raise ArgumentError(f"{agent.me.name} is not among the workers that gather: {', '.join(members)}.")
    leader = find_worker(agent, members[0])
    for name in members:
        find_worker(agent, name)
    gathering = agent.parts[Gathering]
    number = gathering.enter(members)
    future = agent.send(leader.id, GATHER, (members, number, data), timeout, blocking=False)
    found = future.wait()
    if not isinstance(found, dict):
        raise RpcError("a gathering gave nothing.")
    return found
