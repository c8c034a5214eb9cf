"""`Edges`: what goes between this rank and others in a step, received ahead of its use.

All messages from one rank to another go in the order of the program on both ends, so that one tag serves them
all, and a device's stream too. Receives are posted before the program comes to them, as many per edge as the
program itself has waiting at once, and at least two: what is sent finds its place while this rank computes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError
from shardwise.collectives import Work, irecv, isend
from shardwise.pipelining.action import Action
from shardwise.pipelining.meta import Meta
from shardwise.pipelining.need import Event, carried, taker
from shardwise.pipelining.program import Program

__all__ = ["TAG", "Edges", "HostLink", "Link", "Route", "dense", "route"]

T = TypeVar("T")

TAG = (1 << 20) - 2
"""Of all messages of pipelines."""

_LEAST = 2  # receives per edge that are posted at once


class Link(Protocol):
    """How arrays go from a rank to another, in their order."""

    def send(self, array: Array, rank: int) -> Work[Any]:
        """Begin to send to a global rank."""

    def receive(self, meta: Meta, rank: int) -> Work[Array]:
        """Begin to receive from a global rank."""


class HostLink:
    """Messages of the world, which its transport moves while this rank computes."""

    def send(self, array: Array, rank: int) -> Work[Any]:
        """Begin to send to a global rank."""
        return isend(array, rank, TAG)

    def receive(self, meta: Meta, rank: int) -> Work[Array]:
        """Begin to receive from a global rank."""
        return irecv(meta.local_shape, meta.dtype, rank, TAG)


class Route:
    """What one rank sends and receives in a program: pure arithmetic, made once.

    Attributes
    ----------
    peers : dict of Event to int
        Place of the other rank.
    incoming : dict of int to tuple of Event
        Place of the sender -> what comes from it, in order.
    credit : dict of int to int
        Place of the sender -> how many of its messages may be awaited at once.
    """

    def __init__(
        self, peers: Mapping[Event, int], incoming: Mapping[int, tuple[Event, ...]], credit: Mapping[int, int]
    ) -> None:
        self.peers, self.incoming, self.credit = peers, incoming, credit


def route(program: Program, place: int) -> Route:
    """Return what a rank of a lowered program sends and receives.

    Examples
    --------
    >>> found = route(Program.from_text("0F0,0SEND_F0,0F1,0SEND_F1\\n1RECV_F0,1F0,1RECV_F1,1F1"), 1)
    >>> found.incoming, found.credit
    ({0: (('F', 0, 0), ('F', 0, 1))}, {0: 2})
    """
    owners = program.owners
    peers: dict[Event, int] = {}
    incoming: dict[int, list[Event]] = {}
    open_: dict[int, set[Event]] = {}
    credit: dict[int, int] = {}
    for action in program.ranks[place]:
        if action.kind.startswith(("SEND", "RECV")):
            event = carried(action)
            _, target = taker(event)
            sends = action.kind.startswith("SEND")
            peer = peers[event] = owners[target if sends else event[1], event[2]]
            if not sends:
                incoming.setdefault(peer, []).append(event)
                waiting = open_.setdefault(peer, set())
                waiting.add(event)
                credit[peer] = max(credit.get(peer, _LEAST), len(waiting))
            continue
        for part in action.compute:
            for waiting in open_.values():
                waiting -= {e for e in waiting if _takes(part, e)}
    return Route(peers, {peer: tuple(events) for peer, events in incoming.items()}, credit)


def _takes(part: Action, event: Event) -> bool:
    kinds, stage = taker(event)
    return part.kind in kinds and (part.stage, part.microbatch) == (stage, event[2])


class Edges:
    """The messages of one step.

    Parameters
    ----------
    route : Route
    ranks : sequence of int
        Global rank of each place.
    metas : callable
        ``metas(event)`` gives what is known of the arrays of a message.
    link : Link
    here : int
        Global rank, for messages.
    """

    def __init__(
        self,
        route: Route,
        ranks: Sequence[int],
        metas: Callable[[Event], Sequence[Meta]],
        link: Link,
        here: int,
    ) -> None:
        self._here = here
        self._route, self._ranks, self._metas, self._link = route, ranks, metas, link
        self._next = {peer: deque(events) for peer, events in route.incoming.items()}
        self._posted: dict[Event, list[Work[Array]]] = {}
        self._waiting = dict.fromkeys(route.incoming, 0)
        self._sent: deque[tuple[Work[Any], Event]] = deque()

    def begin(self) -> None:
        """Post the first receives of each edge."""
        for peer, credit in self._route.credit.items():
            for _ in range(min(credit, len(self._next[peer]))):
                self._post(peer)

    def _post(self, peer: int) -> None:
        event = self._next[peer].popleft()
        rank = self._ranks[peer]
        self._posted[event] = [self._link.receive(meta, rank) for meta in self._metas(event)]
        self._waiting[peer] += 1

    def expect(self, event: Event) -> None:
        """See that a receive is posted, and all of its edge before it."""
        peer = self._route.peers[event]
        while event not in self._posted and event in self._next[peer]:
            self._post(peer)

    def take(self, event: Event, where: str) -> list[Array]:
        """Wait for what comes from another rank, and post what may come next.

        Raises
        ------
        CollectiveError
            It does not come: the action that waits, what for, and from which rank.
        """
        works = self._posted.pop(event)
        peer = self._route.peers[event]
        arrays = [self._finish(work, f"{where} waits for {_told(event)} from", peer) for work in works]
        self._waiting[peer] -= 1
        if self._next[peer] and self._waiting[peer] < self._route.credit[peer]:
            self._post(peer)
        return arrays

    def send(self, event: Event, arrays: Iterable[Array]) -> None:
        """Begin to send; sends of the past are looked after."""
        rank = self._ranks[self._route.peers[event]]
        for array in arrays:
            self._sent.append((self._link.send(array, rank), event))
        while self._sent and self._sent[0][0].is_completed():
            self._end(*self._sent.popleft())

    def finish(self) -> None:
        """Wait for all sends."""
        while self._sent:
            self._end(*self._sent.popleft())

    def _end(self, work: Work[Any], event: Event) -> None:
        self._finish(
            work,
            f"rank {self._here} waits for the end of the send of {_told(event)} to",
            self._route.peers[event],
        )

    def _finish(self, work: Work[T], what: str, peer: int) -> T:
        try:
            return work.wait()
        except CollectiveError as error:
            raise type(error)(f"{what} rank {self._ranks[peer]}: {error}") from error


def _told(event: Event) -> str:
    kind, stage, i = event
    what = "the output" if kind[0] == "F" else "the gradient of the input"
    if ">" in kind:
        what = "a skip value" if kind[0] == "F" else "the gradient of a skip value"
    return f"{what} of stage {stage} for microbatch {i}"


def dense(array: Array) -> Array:
    """Return the array in one stretch of memory."""
    return array if not array.ndim or array.flags.c_contiguous else np.ascontiguousarray(array)
