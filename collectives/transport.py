"""The seam between collectives and what carries them.

A transport is one file that satisfies `Transport`, and one line in `world.py`. It knows nothing of
validation, dims, records, order or time-outs: those lie above it, in `issue.py`, `group.py` and `lane.py`.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol

from shardwise.backend.array import Array
from shardwise.collectives.pending import Pending
from shardwise.collectives.progress import Progress
from shardwise.collectives.reduction import ReduceOp

__all__ = ["Channel", "Connection", "Transport"]


class Channel(Protocol):
    """The collectives of one group: one method for each line of the table.

    Arrays are C-contiguous, of one dtype on all ranks. An axis of length n in front says which rank a
    row belongs to. The arrays belong to the transport until the operation has ended. `out` is either
    the same array as `x`, or shares no memory with it, except where a method says more.
    """

    def all_reduce(self, x: Array, out: Array, op: ReduceOp) -> Pending:
        """Fill `out` (shape of `x`) with the reduction of all `x`."""

    def all_gather(self, x: Array, out: Array) -> Pending:
        """Fill `out` (n, ``*x.shape``) with every rank's `x`, which may be this rank's row of `out`."""

    def reduce_scatter(self, x: Array, out: Array, op: ReduceOp) -> Pending:
        """Fill `out` with the reduction of row `rank` of all `x` (n, ``*out.shape``); it may be that row."""

    def all_to_all(self, x: Array, out: Array) -> Pending:
        """Fill row i of `out` with row `rank` of rank i's `x`; both (n, ...), never the same array."""

    def broadcast(self, x: Array, root: int) -> Pending:
        """Fill `x` with rank `root`'s `x`."""

    def reduce(self, x: Array, out: Array | None, op: ReduceOp, root: int) -> Pending:
        """Fill `out` on rank `root` with the reduction of all `x`; None on the others."""

    def gather(self, x: Array, out: Array | None, root: int) -> Pending:
        """Fill `out` (n, ``*x.shape``) on rank `root` with every rank's `x`; None on the others."""

    def scatter(self, x: Array | None, out: Array, root: int) -> Pending:
        """Fill `out` with row `rank` of rank `root`'s `x` (n, ``*out.shape``); None on the others."""

    def barrier(self) -> Pending:
        """End once all ranks have begun."""

    def close(self) -> None:
        """Free what the channel holds. Nothing is under way."""


class Transport(Protocol):
    """What carries everything between the ranks of one world.

    Attributes
    ----------
    name : str
        As in ``init(transport=name)``.
    rank, size : int
        Place in the world.
    local_rank, local_size : int
        Place among the ranks of this host.
    hostname : str
    progress : Progress or None
        Whom to tell of asynchronous operations, where they advance only while someone tests them.
    lock : threading.Lock or None
        Held around everything, where the transport takes one thread at a time.
    """

    name: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    hostname: str
    progress: Progress | None
    lock: Lock | None

    def connect(self, ranks: tuple[int, ...]) -> Connection:
        """Begin to make the channel of a group, which this rank is in; other ranks need not take part."""

    def send(self, x: Array, dst: int, tag: int) -> Pending:
        """Send `x` to global rank `dst`; messages of one (sender, receiver, tag) keep their order."""

    def recv(self, out: Array, src: int, tag: int) -> Pending:
        """Fill `out` with the next message of (`src`, this rank, `tag`)."""

    def leave(self) -> None:
        """Wait until all ranks have come here: the others may still need what this one has sent."""

    def abort(self, code: int) -> None:
        """End all ranks, at once."""

    def close(self) -> None:
        """Free what the transport holds. Nothing is under way."""


class Connection(Pending, Protocol):
    """The making of a channel; it is there once `test` has said True."""

    @property
    def channel(self) -> Channel:
        """The channel that was made."""
