"""A group of ranks: the place where collectives are issued, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from shardwise.backend.errors import CollectiveError
from shardwise.backend.source import source_line
from shardwise.collectives.fork import check_process, process_of
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Ledger, Record, is_implicit
from shardwise.collectives.pending import Finished, Pending
from shardwise.collectives.transport import Channel, Connection, Transport
from shardwise.collectives.work import Work

__all__ = ["ProcessGroup"]

T = TypeVar("T")


class ProcessGroup:
    """An ordered tuple of global ranks of one world, with a channel between them.

    Ask `get_group` for one: equal tuples give the same object. The channel is made at the first operation,
    by the members only, or by `connect`. Groups know nothing of each other and never wait for each other.

    Attributes
    ----------
    ranks : tuple of int
        Global ranks of the members, in the order of the group.
    rank : int or None
        Place of this process in `ranks`; None where it is not a member.
    size : int
        Number of members.
    name : str
        For messages: ``"world"``, or the ranks.
    timeout : float
        Seconds after which an operation that is waited for is given up.
    transport : Transport
    lane : Lane
        Keeps the order of the operations.
    """

    def __init__(self, ranks: tuple[int, ...], transport: Transport, ledger: Ledger, timeout: float) -> None:
        self.ranks = ranks
        self.size = len(ranks)
        self.rank: int | None = ranks.index(transport.rank) if transport.rank in ranks else None
        self.name = "world" if ranks == tuple(range(transport.size)) else f"ranks {_spell(ranks)}"
        self.timeout = timeout
        self.transport = transport
        self.lane = Lane(transport.lock)
        self._ledger = ledger
        self._lock = threading.Lock()
        self._connecting: _Connecting | None = None
        self._closed = False
        self._pid = process_of(transport.size)
        self._seq = 0

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name}, rank {self.rank} of {self.size}, {self.transport.name})"

    def __contains__(self, rank: int) -> bool:
        return rank in self.ranks

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"cannot pickle {self!r}: a group belongs to the running world. "
            f"Pickle group.ranks, and call shardwise.collectives.get_group(ranks) where it is read."
        )

    def __copy__(self) -> ProcessGroup:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> ProcessGroup:
        return self

    @property
    def channel(self) -> Channel:
        """The transport's collectives for this group.

        Raises
        ------
        CollectiveError
            If it was not made, or could not be.
        """
        if self._connecting is None or self._connecting.channel is None:
            error = self._connecting.error if self._connecting else None
            raise CollectiveError(
                f"rank {self.transport.rank}: {self.name} has no channel: {error}"
            ) from error
        return self._connecting.channel

    def member(self, op: str) -> int:
        """Give this process's rank in the group, or say that it has none.

        Raises
        ------
        CollectiveError
            If the process is not a member, or the world was shut down.
        """
        check_process(self._pid, op, self.transport.rank)
        if self._closed:
            raise CollectiveError(
                f"{op} on {self.name}: the world that it belonged to was shut down; call get_group() again."
            )
        if self.rank is None:
            raise CollectiveError(
                f"{op} on {self.name}: rank {self.transport.rank} is not a member; "
                f"only ranks {_spell(self.ranks)} may call it."
            )
        return self.rank

    def where(self, op: str) -> str:
        """Begin a message: the operation, the rank and the group."""
        return f"{op} on {self.name}, rank {self.transport.rank}"

    def connect(self) -> None:
        """Begin to make the channel now; all members do so in the same order. Does not wait."""
        self.member("connect")
        with self._lock:
            if self._connecting is None:
                self._connecting = _Connecting(self)
                self.lane.submit(self._connecting)

    def submit(
        self,
        op: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        nbytes: int,
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        background: bool,
    ) -> Work[T]:
        """Issue an operation behind all earlier ones of this group, and write it to the ledger.

        Parameters
        ----------
        op : str
            Name in the table of collectives, perhaps with ``_object`` behind.
        dtype, shape, nbytes
            Of the array, for the record.
        start : callable
            Begins it on the channel.
        finish : callable
            Gives the result once it has ended.
        background : bool
            Whether it must advance while nobody waits for it.
        """
        if self._connecting is None:
            self.connect()
        seq = self._seq
        self._seq = seq + 1
        record = Record(op, seq, self.name, self.size, dtype, shape, nbytes, is_implicit())
        work = Work(self.lane, record, self.transport.rank, self.timeout, lambda: start(self.channel), finish)
        self.lane.submit(work)
        # Written while the others' parts are on their way: it takes as long as a small operation.
        record.source = source_line(3)
        self._ledger.write(record)
        if background and self.transport.progress is not None:
            self.transport.progress.watch(self.lane)
        return work

    def note(
        self, op: str, dtype: np.dtype[Any], shape: tuple[int, ...], nbytes: int, finish: Callable[[], T]
    ) -> Work[T]:
        """Write an operation to the ledger that moves nothing, and has ended: a dry run's.

        Parameters and result as for `submit`.
        """
        record = Record(op, self._seq, self.name, self.size, dtype, shape, nbytes, is_implicit())
        record.source = source_line(3)
        self._seq += 1
        self._ledger.write(record)
        lane = Lane()
        work = Work(lane, record, self.transport.rank, self.timeout, Finished, finish)
        lane.submit(work)
        return work

    def close(self) -> None:
        """Free the channel; the group refuses what comes later."""
        self._closed = True
        if self._connecting is not None and self._connecting.channel is not None:
            self._connecting.channel.close()


class _Connecting:
    """The first entry of a group's lane."""

    def __init__(self, group: ProcessGroup) -> None:
        self.pending: Pending | None = None
        self.channel: Channel | None = None
        self.error: Exception | None = None
        self._group = group
        self._connection: Connection | None = None

    def issue(self) -> None:
        try:
            self.pending = self._connection = self._group.transport.connect(self._group.ranks)
        except Exception as error:
            self.error = error
        self.settle()  # what is behind may be issued at once

    def settle(self) -> bool:
        if self._connection is None:
            return True
        try:
            if not self._connection.test():
                return False
            self.channel = self._connection.channel
        except Exception as error:
            self.error = error
        return True


def _spell(ranks: tuple[int, ...]) -> str:
    """Write ranks shortly: 0-3,8."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
