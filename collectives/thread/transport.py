"""Transport for ranks that are threads of one process: by definition, in rank order, checked.

The last rank to come to a collective runs its definition on everyone's arrays; the others wait. Since all
arguments can be seen, ranks that disagree are told so at once, and a rank that has ended or failed is known
to those who wait for it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence

from shardwise.backend.array import Array
from shardwise.collectives.control import ControlPlane
from shardwise.collectives.flight.inquiry import Tell, ThreadInquiry
from shardwise.collectives.layout import Stretch
from shardwise.collectives.pending import Finished
from shardwise.collectives.progress import Progress
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.tag import user_tag
from shardwise.collectives.thread import reference
from shardwise.collectives.thread.hub import Hub, Meeting, Run
from shardwise.collectives.thread.mailbox import Receipt
from shardwise.collectives.thread.symmetric import ThreadRegions

__all__ = ["ThreadsChannel", "ThreadsTransport"]

_LONGEST_PAUSE = 0.05  # seconds between two looks at whether the others still run


class _Attendance:
    """Pending: one rank's part in a meeting."""

    open = False

    def __init__(self, hub: Hub, meeting: Meeting, rank: int, call: str) -> None:
        self._hub = hub
        self._meeting = meeting
        self._rank = rank
        self._call = call

    def test(self) -> bool:
        if not self._meeting.ended.is_set():
            return False
        if self._meeting.error is not None:
            kind, message = self._meeting.error
            raise kind(message)
        return True

    def pause(self, waited: float, expected: float) -> None:
        self._hub.check(self._rank, self._meeting.missing, self._call)
        self._meeting.ended.wait(min(_LONGEST_PAUSE, waited + expected))


class _Delivery:
    """Pending: a message on its way."""

    open = False

    def __init__(self, hub: Hub, receipt: Receipt) -> None:
        self._hub = hub
        self._receipt = receipt

    def test(self) -> bool:
        if not self._receipt.arrived.is_set():
            return False
        self._receipt.check()
        return True

    def pause(self, waited: float, expected: float) -> None:
        src, dst, tag = self._receipt.key
        arrived = self._receipt.arrived
        if src != dst and not arrived.is_set():
            what = f"recv from rank {src} with tag {user_tag(tag)}"
            self._hub.check(dst, lambda: [] if arrived.is_set() else [src], what)
        arrived.wait(min(_LONGEST_PAUSE, waited + expected))


class ThreadsChannel:
    """The collectives of one group of rank threads, as one of them sees them."""

    def __init__(self, hub: Hub, ranks: tuple[int, ...], rank: int, label: str = "") -> None:
        self._hub = hub
        self._ranks = ranks
        self._label = label
        self._rank = rank
        self._place = ranks.index(rank)
        self._seq = 0
        self.regions = ThreadRegions(hub, ranks, self._place, label)

    def all_reduce(self, x: Array, out: Array, op: Reduction) -> _Attendance:
        return self._come(
            f"all_reduce({_sketch(x)}, op={op!r})",
            x,
            out,
            lambda xs, outs: reference.all_reduce(xs, outs, op),
        )

    def all_gather(self, x: Array, out: Array) -> _Attendance:
        return self._come(f"all_gather({_sketch(x)})", x, out, reference.all_gather)

    def reduce_scatter(self, x: Array, out: Array, op: Reduction) -> _Attendance:
        return self._come(
            f"reduce_scatter({_sketch(x)}, op={op!r})",
            x,
            out,
            lambda xs, outs: reference.reduce_scatter(xs, outs, op),
        )

    def all_to_all(self, x: Array, out: Array) -> _Attendance:
        return self._come(f"all_to_all({_sketch(x)})", x, out, reference.all_to_all)

    def exchange(
        self,
        x: Array,
        out: Array,
        sent: Sequence[Stretch | None],
        received: Sequence[Stretch | None],
    ) -> _Attendance:
        meeting = self._hub.meet(self._ranks, self._label, self._seq)
        return self._attend(
            meeting,
            f"exchange({x.dtype})",
            x,
            out,
            lambda xs, outs: reference.exchange(xs, outs, *meeting.stretches()),
            sent,
            received,
        )

    def broadcast(self, x: Array, root: int) -> _Attendance:
        return self._come(
            f"broadcast({_sketch(x)}, src={self._ranks[root]})",
            x,
            None,
            lambda xs, outs: reference.broadcast(xs, root),
        )

    def reduce(self, x: Array, out: Array | None, op: Reduction, root: int) -> _Attendance:
        return self._come(
            f"reduce({_sketch(x)}, dst={self._ranks[root]}, op={op!r})",
            x,
            out,
            lambda xs, outs: reference.reduce(xs, outs[0], op),
        )

    def gather(self, x: Array, out: Array | None, root: int) -> _Attendance:
        return self._come(
            f"gather({_sketch(x)}, dst={self._ranks[root]})",
            x,
            out,
            lambda xs, outs: reference.gather(xs, outs[0]),
        )

    def scatter(self, x: Array | None, out: Array, root: int) -> _Attendance:
        return self._come(
            f"scatter({_sketch(out)} to each, src={self._ranks[root]})",
            x,
            out,
            lambda xs, outs: reference.scatter(xs[0], outs),
        )

    def barrier(self) -> _Attendance:
        return self._come("barrier()", None, None, lambda xs, outs: None)

    def close(self) -> None:
        """Nothing to free."""

    def _come(self, call: str, x: Array | None, out: Array | None, run: Run) -> _Attendance:
        return self._attend(self._hub.meet(self._ranks, self._label, self._seq), call, x, out, run)

    def _attend(
        self,
        meeting: Meeting,
        call: str,
        x: Array | None,
        out: Array | None,
        run: Run,
        sent: Sequence[Stretch | None] = (),
        received: Sequence[Stretch | None] = (),
    ) -> _Attendance:
        if meeting.come(self._place, call, x, out, run, sent, received):
            self._hub.forget(self._ranks, self._label, self._seq)
        self._seq += 1
        return _Attendance(self._hub, meeting, self._rank, call)


class _Connected(Finished):
    """The making of a channel, which takes no time here."""

    def __init__(self, channel: ThreadsChannel) -> None:
        self.channel = channel


class ThreadsTransport:
    """One rank's end of a hub.

    Parameters
    ----------
    hub : Hub
        Shared by all ranks.
    rank : int
    name : str
        How the world calls it.
    """

    progress: Progress | None = None
    lock: threading.Lock | None = None
    control: ControlPlane | None = None

    def __init__(self, hub: Hub, rank: int, name: str = "threads") -> None:
        self.name = name
        self.rank = self.local_rank = rank
        self.size = self.local_size = hub.size
        self.hostname = socket.gethostname()
        self.hosts = (self.hostname,) * hub.size
        self.phases = hub.phases
        self._hub = hub

    def connect(self, ranks: tuple[int, ...], label: str = "", by_rank_order: bool = False) -> _Connected:
        return _Connected(ThreadsChannel(self._hub, ranks, self.rank, label))

    def connect_mpi(self, ranks: tuple[int, ...], label: str) -> None:
        """Give nothing: there is no MPI."""

    def send(self, x: Array, dst: int, tag: int) -> Finished:
        self._hub.mailbox.send(x, self.rank, dst, tag)
        return Finished()

    def recv(self, out: Array, src: int, tag: int) -> _Delivery:
        return _Delivery(self._hub, self._hub.mailbox.receive(out, src, self.rank, tag))

    def open_inquiry(self, tell: Tell, keep: Callable[[], None]) -> ThreadInquiry:
        self._hub.tellers[self.rank] = (tell, keep)
        return ThreadInquiry(self._hub.tellers, self.size, self._hub.ended)

    def leave(self) -> None:
        """Return at once: what was sent lies in the hub."""

    def abort(self, code: int) -> None:
        self._hub.fail(self.rank, f"exit code {code}")

    def close(self) -> None:
        """Nothing to free: the hub goes when its last rank does."""


def _sketch(x: Array) -> str:
    return f"{x.dtype}{list(x.shape)}"
