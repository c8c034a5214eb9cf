"""The world: which ranks there are, and which of them this is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, TypeVar

import numpy as np

from shardwise.backend.errors import CollectiveError
from shardwise.backend.source import source_place
from shardwise.collectives.ending.fork import Origin
from shardwise.collectives.ending.interrupt import Interrupts
from shardwise.collectives.ending.notice import Notice
from shardwise.collectives.flight.checked import CheckedGroup, agree_on_debug
from shardwise.collectives.flight.message_note import MessageNotes
from shardwise.collectives.flight.record import Flight
from shardwise.collectives.flight.watchdog import Watchdog
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Ledger, Record, is_forbidden, is_implicit, refuse_implicit
from shardwise.collectives.pending import Pending
from shardwise.collectives.progress import Progress
from shardwise.collectives.reduction import Deterministic
from shardwise.collectives.timeout import TIMEOUT, Timeout, seconds
from shardwise.collectives.transport import Transport
from shardwise.collectives.work import Ended, Work

__all__ = ["World"]

T = TypeVar("T")

_LOOK = 1.0  # seconds between two looks at operations that nobody waits for
_TRIES = 16  # tests of a message that is waited for, before it gets a handle: some microseconds


class World:
    """All ranks that can talk, seen from one of them.

    Parameters
    ----------
    transport : Transport
    timeout : float
        Seconds that groups wait for an operation, unless they are told.
    deterministic : {"by-rank-order"}, optional
        What groups do about the order of reductions, unless they are told.
    folder : str, optional
        Where a verdict leaves the flight record of each rank.
    debug : bool
        Whether ranks compare every call of a collective before they make it.
    log : bool
        Whether each record of the ledger is logged as it is written.

    Attributes
    ----------
    rank, size : int
    local_rank, local_size : int
        Place among the ranks of this host, and their number.
    hostname : str
    hosts : tuple of str
        Of each rank, a text that is equal for ranks of one host: its name, or that and more behind a ``/``.
    transport : Transport
    control : ControlPlane or None
        Messages beside the collectives, where ranks are processes.
    ledger : Ledger
        Everything that this rank has sent or received.
    debug : bool
    notes : MessageNotes or None
        What is told of messages beside them, in debug mode.
    flight : Flight
        What it tells others of that when something hangs.
    notice : Notice
        Whether this rank was told that its job is to end.
    interrupts : Interrupts
        Holds Ctrl-C back while an operation is handed over.
    """

    def __init__(
        self,
        transport: Transport,
        timeout: float = TIMEOUT,
        deterministic: Deterministic | None = None,
        folder: str | None = None,
        debug: bool = False,
        log: bool = False,
    ) -> None:
        self.transport = transport
        self.control = transport.control
        self.rank = transport.rank
        self.size = transport.size
        self.local_rank = transport.local_rank
        self.local_size = transport.local_size
        self.hostname = transport.hostname
        self.hosts = transport.hosts
        self.timeout = timeout
        self.debug = debug
        self.notes = MessageNotes(self.control) if debug and self.control is not None else None
        self.deterministic = deterministic
        self.ledger = Ledger(log=self.rank if log else None)
        self.notice = Notice()
        self._groups: dict[tuple[int, ...], ProcessGroup] = {}
        self._new_groups: list[ProcessGroup] = []
        self._lock = threading.Lock()
        self._origin = Origin(self.size)
        # Ranks as threads are told apart by their thread, those of MPI have a process.
        thread = threading.get_ident() if transport.control is None else None
        self.flight = Flight(
            self.rank,
            self.size,
            self.ledger,
            self._issued,
            self._members,
            thread,
            Path(folder) if folder else None,
            transport.open_inquiry,
        )
        self._messages = count()
        self.interrupts = Interrupts(_STEPS, self._go_on)
        self._everyone = tuple(range(self.size))
        self.everyone = self.group(self._everyone)
        if self.control is not None and transport.progress is not None:
            self.control.every(_LOOK, Watchdog(transport.progress, self.flight.overdue).look)
        if self.control is not None:
            agree_on_debug(self.control, debug)
            self.interrupts.install()

    def __repr__(self) -> str:
        return f"World(rank {self.rank} of {self.size} on {self.hostname}, {self.transport.name})"

    def group(self, ranks: Iterable[int] | None = None, timeout: Timeout | None = None) -> ProcessGroup:
        """Give the group of these global ranks, in this order; all ranks for None. Does not communicate.

        Raises
        ------
        CollectiveError
            If `ranks` is empty, has one twice, or has one that is not in the world.
        """
        if ranks is None:
            return self.everyone
        members = tuple(int(rank) for rank in ranks)
        with self._lock:
            group = self._groups.get(members)
            if group is None:
                group = self._groups[members] = self._make("get_group", members, "", self.deterministic)
        if timeout is not None:
            group.timeout = seconds(timeout)
        return group

    def new_group(
        self,
        ranks: Iterable[int] | None = None,
        timeout: Timeout | None = None,
        deterministic: Deterministic | None = None,
    ) -> ProcessGroup:
        """Give another group of these global ranks, with a channel and an order of its own; see `new_group`.

        Raises
        ------
        CollectiveError
            If `ranks` is empty, has one twice, or has one that is not in the world.
        """
        members = self._everyone if ranks is None else tuple(int(rank) for rank in ranks)
        with self._lock:
            earlier = sum(group.ranks == members for group in self._new_groups)
            group = self._make("new_group", members, f"#{earlier + 1}", deterministic or self.deterministic)
            self._new_groups.append(group)
        if timeout is not None:
            group.timeout = seconds(timeout)
        return group

    def _make(
        self, op: str, members: tuple[int, ...], label: str, deterministic: Deterministic | None
    ) -> ProcessGroup:
        if not members or len(set(members)) < len(members) or not set(members) <= set(self._everyone):
            raise CollectiveError(
                f"rank {self.rank}: {op} wants distinct ranks from 0 to {self.size - 1}, "
                f"at least one; got {list(members)}."
            )
        kind = CheckedGroup if self.debug else ProcessGroup
        return kind(
            members,
            self.transport,
            self.ledger,
            self.timeout,
            self._origin,
            self.group,
            label,
            deterministic,
            self.flight.overdue,
        )

    def _issued(self, name: str) -> int:
        groups = (*list(self._groups.values()), *self._new_groups)
        return next((group.issued for group in groups if group.name == name), 0)

    def _members(self, record: Record) -> Sequence[int]:
        groups = (*list(self._groups.values()), *self._new_groups)
        found = next((group.ranks for group in groups if group.name == record.group), None)
        if found is not None:
            return found
        return (record.how,) if isinstance(record.how, int) else ()  # a message: its other end

    def message(
        self,
        op: Literal["send", "recv", "send_object", "recv_object"],
        peer: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: Callable[[Transport], Pending],
        finish: Callable[[], T],
        background: bool,
    ) -> Work[T]:
        """Issue a send or receive and write it to the ledger; messages do not wait for each other."""
        if self._origin.forked:
            self._origin.check(op, self.rank)
        name = _route(self.rank, peer) if op[0] == "s" else _route(peer, self.rank)
        if is_forbidden():
            refuse_implicit(op, name, 2, self.rank, dtype, shape)
        record = Record(op, next(self._messages), name, 2, dtype, shape, is_implicit(), peer, source_place(3))
        self.ledger.write(record)
        transport = self.transport
        pending: Pending | None = None
        if not background and transport.lock is None:
            # As for a collective on an empty lane: what ends at once needs no handle.
            try:
                pending = start(transport)
                for _ in range(_TRIES):
                    if pending.test():
                        result = finish()
                        record.end = perf_counter()
                        return Ended(record, self.rank, result)
            except Exception as error:
                work = Work(Lane(), record, self.rank, self.timeout, None, finish)
                work.fail(error)
                return work
        progress = transport.progress
        lane = Lane(transport.lock, self.flight.overdue, progress.watch if progress else None)
        work = Work(lane, record, self.rank, self.timeout, lambda: start(transport), finish)
        if pending is not None:
            work = Work(lane, record, self.rank, self.timeout, None, finish, pending)
            lane.adopt(work)
        else:
            lane.submit(work)
        if background and progress is not None:
            progress.watch(lane)
        return work

    def _go_on(self) -> None:
        """Have a thread go on with what the main thread was about to wait for."""
        for group in (*list(self._groups.values()), *self._new_groups):
            if len(group.lane) and group.lane.watch is not None:
                group.lane.watch(group.lane)

    def close(self) -> None:
        """End the world for this rank, once all ranks do."""
        self.transport.leave()
        for group in (*(self._groups[members] for members in sorted(self._groups)), *self._new_groups):
            group.close()
        self.notice.close()
        self.interrupts.close()
        self.transport.close()


# What hands operations over and notes it, without waiting for other ranks.
_STEPS = (
    Lane.advance.__code__,
    Lane.submit.__code__,
    ProcessGroup.connect.__code__,
    ProcessGroup.submit.__code__,
    Progress.watch.__code__,
    World.message.__code__,
)


@cache
def _route(src: int, dst: int) -> str:
    return f"{src} -> {dst}"
