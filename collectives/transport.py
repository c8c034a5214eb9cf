"""The seam between collectives and what carries them.

A transport is one file that satisfies `Transport`, and one line in `world.py`. It knows nothing of
validation, dims, records, order or time-outs: those lie above it, in `issue/`, `group.py` and `lane.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol

from shardwise.backend.array import Array
from shardwise.collectives.control import ControlPlane
from shardwise.collectives.flight.inquiry import Inquiry, Tell
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Pending
from shardwise.collectives.progress import Progress
from shardwise.collectives.reduction import Reduction

__all__ = ["Channel", "Connection", "Transport"]


class Channel(Protocol):
    """The collectives of one group: a method for each line of the table that `composed.py` does not compose.

    Arrays are C-contiguous, of one dtype on all ranks. An axis of length n in front says which rank a
    row belongs to. The arrays belong to the transport until the operation has ended. `out` is either
    the same array as `x`, or shares no memory with it, except where a method says more.
    """

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> Pending:
        """Fill `out` (shape of `x`) with the reduction of all `x`."""

    def all_gather(self, x: Array, out: Array) -> Pending:
        """Fill `out` (n, ``*x.shape``) with every rank's `x`, which may be this rank's row of `out`."""

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> Pending:
        """Fill `out` with the reduction of row `rank` of all `x` (n, ``*out.shape``); it may be that row."""

    def all_to_all(self, x: Array, out: Array) -> Pending:
        """Fill row i of `out` with row `rank` of rank i's `x`; both (n, ...), never the same array."""

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> Pending:
        """Fill stretch ``received[i]`` of `out` with the stretch of rank i's `x` that it sends to this rank.

        `x` and `out` are flat, each as long as its rank likes. There is one stretch for each rank, this one
        too, counted in elements; it may be empty, and is as long as the other side says. It is None on
        both sides where the operation as such sends nothing from that rank to this. Those of `sent` may
        overlap, those of `received` do not. `x` may be this rank's own stretch of `out`. The uneven
        forms and the scans are composed of this.
        """

    def broadcast(self, x: Array, root: int) -> Pending:
        """Fill `x` with rank `root`'s `x`."""

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> Pending:
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
    hosts : tuple of str
        Of each rank, a text that is equal for ranks of one host: its name, or that and more behind a ``/``.
    progress : Progress or None
        Whom to tell of asynchronous operations, where they advance only while someone tests them.
    phases : Progress or None
        Whom to tell of asynchronous operations of several phases, where only these need someone who tests
        them: their next phase is issued in a test, and others may wait for it.
    lock : threading.Lock or None
        Held around everything, where the transport takes one thread at a time.
    control : ControlPlane or None
        Sockets between the ranks, where these are processes.
    """

    name: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    hostname: str
    hosts: tuple[str, ...]
    progress: Progress | None
    phases: Progress | None
    lock: Lock | None
    control: ControlPlane | None

    def connect(self, ranks: tuple[int, ...], label: str = "", by_rank_order: bool = False) -> Connection:
        """Begin to make the channel of a group, which this rank is in; other ranks need not take part.

        Parameters
        ----------
        ranks : tuple of int
            Global ranks of the members, in the order of the group.
        label : str
            Tells apart groups of equal ranks; empty for the one that `get_group` gives.
        by_rank_order : bool
            Combine the parts of reductions in rank order, as `reference` does, whatever the transport.
        """

    def connect_mpi(self, ranks: tuple[int, ...], label: str) -> Channel | None:
        """Make a channel that is MPI's own, for what only MPI can carry; None where there is no MPI.

        All of `ranks` call it at the same time, and it waits for them.
        """

    def send(self, x: Array, dst: int, tag: int) -> Pending:
        """Send `x` to global rank `dst`; messages of one (sender, receiver, tag) keep their order."""

    def recv(self, out: Array, src: int, tag: int) -> Pending:
        """Fill `out` with the next message of (`src`, this rank, `tag`)."""

    def open_inquiry(self, tell: Tell, keep: Callable[[], None]) -> Inquiry:
        """Give how to ask all ranks where they are, and answer for this one by `tell`; `keep` its record."""

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
