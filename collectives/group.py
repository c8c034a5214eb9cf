"""A group of ranks: the place where collectives are issued, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NoReturn, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, ShapeError
from shardwise.backend.source import source_place
from shardwise.collectives.connecting import Connecting
from shardwise.collectives.device.agreement import DevicePart
from shardwise.collectives.ending.fork import Origin
from shardwise.collectives.lane import Lane, Overdue
from shardwise.collectives.ledger import Ledger, Record, is_forbidden, is_implicit, refuse_implicit
from shardwise.collectives.pending import Pending
from shardwise.collectives.rank_list import rank_numbers
from shardwise.collectives.reduction import Deterministic
from shardwise.collectives.timeout import Timeout, seconds
from shardwise.collectives.transport import Channel, Connection, Transport
from shardwise.collectives.work import Ended, Work

__all__ = ["ProcessGroup"]

T = TypeVar("T")


class ProcessGroup:
    """An ordered tuple of global ranks of one world, with a channel between them.

    Ask `get_group` for one: equal tuples give the same object; or `new_group` for another one. The channel is
    made at the first operation, by the members only, or by `connect`. Groups know nothing of each other and
    never wait for each other.

    Attributes
    ----------
    ranks : tuple of int
        Global ranks of the members, in the order of the group.
    rank : int or None
        Place of this process in `ranks`; None where it is not a member.
    size : int
        Number of members.
    name : str
        For messages: ``"world"``, or the ranks; with a number if it is of `new_group`.
    label : str
        Tells apart groups of equal ranks; empty for that of `get_group`.
    deterministic : str or None
        ``"by-rank-order"`` where reductions combine in rank order on any transport.
    timeout : float
        Seconds after which an operation that is waited for is given up.
    transport : Transport
    lane : Lane
        Keeps the order of the operations.
    """

    def __init__(
        self,
        ranks: tuple[int, ...],
        transport: Transport,
        ledger: Ledger,
        timeout: float,
        origin: Origin,
        find: Callable[[tuple[int, ...]], ProcessGroup],
        label: str = "",
        deterministic: Deterministic | None = None,
        overdue: Overdue | None = None,
    ) -> None:
        self.ranks = ranks
        self.size = len(ranks)
        self.rank: int | None = ranks.index(transport.rank) if transport.rank in ranks else None
        everyone = ranks == tuple(range(transport.size))
        self.name = ("world" if everyone else f"ranks {rank_numbers(ranks)}") + label
        self.label = label
        self.deterministic = deterministic
        self.timeout = timeout
        self.transport = transport
        progress = transport.progress or transport.phases
        self.lane = Lane(transport.lock, overdue, progress.watch if progress else None)
        self._ledger = ledger
        self._lock = threading.Lock()
        self._connecting: Connecting | None = None
        self._device: DevicePart | None = None
        self._closed = False
        self._origin = origin
        self._find = find
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
    def issued(self) -> int:
        """How many operations this rank has issued on the group; also of those whose wait was interrupted."""
        return self._seq

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
            if isinstance(error, CollectiveError):
                raise error
            raise CollectiveError(
                f"rank {self.transport.rank}: {self.name} has no channel: "
                f"{error or 'its first collective makes it'}"
            ) from error
        return self._connecting.channel

    @property
    def device_transport(self) -> str | None:
        """What carries device arrays: "nccl", "mpi-cuda" or "staged"; None until all have agreed."""
        return None if self._device is None else self._device.transport

    def member(self, op: str) -> int:
        """Give this process's rank in the group, or say that it has none.

        Raises
        ------
        CollectiveError
            If the process is not a member, or the world was shut down.
        """
        if self._origin.forked:
            self._origin.check(op, self.transport.rank)
        if self._closed:
            raise CollectiveError(
                f"{op} on {self.name}: the world that it belonged to was shut down; call get_group() again."
            )
        if self.rank is None:
            raise CollectiveError(
                f"{op} on {self.name}: rank {self.transport.rank} is not a member; "
                f"only ranks {rank_numbers(self.ranks)} may call it."
            )
        return self.rank

    def where(self, op: str) -> str:
        """Begin a message: the operation, the rank and the group."""
        return f"{op} on {self.name}, rank {self.transport.rank}"

    def global_rank(self, rank: int) -> int:
        """Give the global rank of group rank `rank`, as PyTorch's ``get_global_rank``.

        Raises
        ------
        CollectiveError
            If there is no such rank.
        """
        if not 0 <= rank < self.size:
            raise CollectiveError(
                f"{self.where('global_rank')}: rank {rank} of a group of {self.size}; "
                f"choose one from 0 to {self.size - 1}."
            )
        return self.ranks[rank]

    def group_rank(self, rank: int) -> int:
        """Give the group rank of global rank `rank`, as PyTorch's ``get_group_rank``.

        Raises
        ------
        CollectiveError
            If it is not a member.
        """
        if rank not in self.ranks:
            raise CollectiveError(
                f"{self.where('group_rank')}: global rank {rank} is not one of its ranks {list(self.ranks)}."
            )
        return self.ranks.index(rank)

    def split(
        self, color: int | Sequence[int | None] | None, key: int = 0, *, timeout: Timeout | None = None
    ) -> ProcessGroup | None:
        """Part the group: give the group of those members that say the same color.

        Parameters
        ----------
        color : int, None or sequence of (int or None)
            This rank's color: all members call it, and tell each other. Or the colors of all members in the
            order of the group, the same on all of them: then nothing is sent. None takes part in no group.
        key : int
            Members are ordered by key, and where those are equal by their place in this group. Not with a
            sequence of colors.
        timeout : float or timedelta, optional
            Seconds that the new group waits for an operation.

        Returns
        -------
        ProcessGroup or None
            The group that `get_group` gives for those ranks; None for color None.

        Raises
        ------
        ShapeError
            If there is not one color for each member.
        CollectiveError
            If this rank is not a member.
        """
        rank = self.member("split")
        if color is None or isinstance(color, int | np.integer):
            mine = np.array([color is not None, color or 0, key], np.int64)
            rows = np.empty((self.size, 3), np.int64)
            self.submit(
                "all_gather",
                None,
                mine.dtype,
                mine.shape,
                lambda on: on.all_gather(mine, rows),
                _nothing,
                False,
            ).wait()
            said = [(int(tint) if has else None, int(order)) for has, tint, order in rows]
        else:
            said = [(each, 0) for each in color]
            if len(said) != self.size:
                raise ShapeError(
                    f"{self.where('split')}: got {len(said)} colors; wanted {self.size}, one for each member."
                )
        own = said[rank][0]
        if own is None:
            return None
        order = sorted((key, place) for place, (tint, key) in enumerate(said) if tint == own)
        group = self._find(tuple(self.ranks[place] for _, place in order))
        if timeout is not None:
            group.timeout = seconds(timeout)
        return group

    def _open(self) -> Connection:
        return self.transport.connect(self.ranks, self.label, self.deterministic == "by-rank-order")

    def connect(self) -> None:
        """Begin to make the channel now; all members do so in the same order. Does not wait."""
        self.member("connect")
        with self._lock:
            if self._connecting is None:
                self._connecting = Connecting(self._open)
                self.lane.submit(self._connecting)

    def submit(
        self,
        op: str,
        how: str | int | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        background: bool,
        like: Array | None = None,
        splits: Sequence[Sequence[int]] = (),
    ) -> Work[T]:
        """Issue an operation behind all earlier ones of this group, and write it to the ledger.

        Parameters
        ----------
        op : str
            Name in the table of collectives, perhaps with ``_object`` behind.
        how : str, int or None
            The reduction, or the global rank that is special; for the record.
        dtype, shape
            Of the array, for the record.
        start : callable
            Begins it on the channel.
        finish : callable
            Gives the result once it has ended.
        background : bool
            Whether it must advance while nobody waits for it. If not, it may have ended on return.
        like : array, optional
            An array of those on a device; on the host by default.
        splits : sequence of sequences of int
            Sizes that all ranks give alike, or what goes to and comes from each; for the debug mode.
        """
        if is_forbidden():
            refuse_implicit(op, self.name, self.size, self.transport.rank, dtype, shape)
        if like is not None and self.size > 1:
            return self._launch(op, how, dtype, shape, start, finish, background, like)
        lane = self.lane
        connecting = self._connecting
        if background or connecting is None or lane.is_busy:
            return self._queue(op, how, dtype, shape, start, finish, background)
        with lane.lock:
            if not len(lane):  # nothing is ahead of it: it runs here and now, and needs no handle if it ends
                pending: Pending | None = None
                rank = self.transport.rank
                record = self._record(op, how, dtype, shape)
                try:
                    pending = start(connecting.channel or self.channel)
                    if pending.test():
                        result = finish()
                        record.end = perf_counter()
                        return Ended(record, rank, result)
                    work = Work(lane, record, rank, self.timeout, None, finish, pending)
                    lane.adopt(work)
                    return work
                except Exception as error:
                    work = Work(lane, record, rank, self.timeout, None, finish)
                    work.fail(error)
                    return work
                except BaseException:  # the others take part in it, so it stays ahead of what follows
                    if pending is not None:
                        lane.adopt(Work(lane, record, rank, self.timeout, None, finish, pending))
                    raise
        return self._queue(op, how, dtype, shape, start, finish, background)

    def _queue(
        self,
        op: str,
        how: str | int | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        background: bool,
    ) -> Work[T]:
        lane = self.lane
        if self._connecting is None:
            self.connect()
        record = self._record(op, how, dtype, shape)
        work = Work(
            lane, record, self.transport.rank, self.timeout, lambda: start(self._made_for(record)), finish
        )
        lane.submit(work)
        if background:
            progress = self.transport.progress
            if progress is None and lane.open:
                progress = self.transport.phases
            if progress is not None:
                progress.watch(lane)
        return work

    def _launch(
        self,
        op: str,
        how: str | int | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        start: Callable[[Channel], Pending],
        finish: Callable[[], T],
        background: bool,
        like: Array,
    ) -> Work[T]:
        """Issue an operation on device arrays; the first one makes a channel for them."""
        if self._connecting is None:
            self.connect()
        with self._lock:
            if self._device is None:
                self._device = DevicePart(self, like)
        record = self._record(op, how, dtype, shape)
        work = self._device.work(like, record, self.timeout, start, finish)
        self.lane.submit(work)
        if background and self.transport.progress is not None:
            self.transport.progress.watch(self.lane)
        return work

    def note(
        self,
        op: str,
        how: str | int | None,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        finish: Callable[[], T],
    ) -> Work[T]:
        """Write an operation to the ledger that moves nothing, and has ended: a dry run's.

        Parameters and result as for `submit`.
        """
        if is_forbidden():
            refuse_implicit(op, self.name, self.size, self.transport.rank, dtype, shape)
        record = self._record(op, how, dtype, shape)
        result = finish()
        record.end = perf_counter()
        return Ended(record, self.transport.rank, result)

    def _made_for(self, record: Record) -> Channel:
        """Give the channel, or say which operation misses it: the ranks that waited for it end alike."""
        try:
            return self.channel
        except CollectiveError as error:
            raise type(error)(f"{error} ({record.where})") from None

    def _record(self, op: str, how: str | int | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Record:
        seq = self._seq
        self._seq = seq + 1
        # Between here and the user are at least the method that records, and two functions above it.
        place = source_place(4)
        record = Record(op, seq, self.name, self.size, dtype, shape, is_implicit(), how, place)
        self._ledger.write(record)
        return record

    def close(self) -> None:
        """Free the channel; the group refuses what comes later."""
        self._closed = True
        if self._device is not None:
            self._device.close()
        if self._connecting is not None and self._connecting.channel is not None:
            self._connecting.channel.close()


def _nothing() -> None:
    return None
