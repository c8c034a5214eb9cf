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
from shardwise.backend.errors import (
    CollectiveError,
    CollectiveMismatchError,
    WorldAbortedError,
)
from shardwise.collectives import reference
from shardwise.collectives.mailbox import Mailbox, Receipt
from shardwise.collectives.pending import Finished
from shardwise.collectives.progress import Progress
from shardwise.collectives.reduction import ReduceOp
from shardwise.collectives.tag import user_tag

__all__ = ["Hub", "ThreadsChannel", "ThreadsTransport"]

_LONGEST_PAUSE = 0.05  # seconds between two looks at whether the others still run

Run = Callable[[list[Array], list[Array]], None]


class Hub:
    """What the ranks of one process share: meetings, messages, and who has ended.

    Parameters
    ----------
    size : int
        Number of ranks.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.mailbox = Mailbox()
        self._lock = threading.Lock()
        self._meetings: dict[tuple[tuple[int, ...], int], _Meeting] = {}
        self._ended: dict[int, str] = {}
        self._failure: str | None = None

    def meet(self, ranks: tuple[int, ...], seq: int) -> _Meeting:
        """Give the meeting number `seq` of these ranks; the first to ask makes it."""
        with self._lock:
            return self._meetings.setdefault((ranks, seq), _Meeting(ranks))

    def forget(self, ranks: tuple[int, ...], seq: int) -> None:
        """Drop a meeting to which all have come."""
        with self._lock:
            self._meetings.pop((ranks, seq), None)

    def leave(self, rank: int) -> None:
        """Note that `rank` has returned and will come to nothing any more."""
        with self._lock:
            self._ended[rank] = "has returned"

    def fail(self, rank: int | None, reason: str) -> None:
        """Note that `rank` has failed, so that the others stop waiting. The first failure counts."""
        with self._lock:
            if self._failure is None:
                self._failure = f"{'the caller' if rank is None else f'rank {rank}'} failed with {reason}"

    def check(self, rank: int, needed: Sequence[int], what: str) -> None:
        """Raise if a rank has failed, or one of those `needed` has ended, while `rank` waits."""
        with self._lock:
            failure = self._failure
            gone = [other for other in needed if other in self._ended]
        if failure is not None:
            raise WorldAbortedError(f"rank {rank} was stopped in {what}: {failure}.")
        if gone:
            raise CollectiveError(
                f"rank {rank} waits in {what}, but rank {gone[0]} has returned without it; "
                f"every rank of the group must take part, in the same order."
            )


class _Meeting:
    """One collective of one group: everyone's arrays, and an event for its end."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.ended = threading.Event()
        self.error: tuple[type[CollectiveError], str] | None = None
        self._lock = threading.Lock()
        self._calls: dict[int, str] = {}
        self._xs: dict[int, Array] = {}
        self._outs: dict[int, Array] = {}

    def come(self, rank: int, call: str, x: Array | None, out: Array | None, run: Run) -> bool:
        """Bring one rank's arrays; the last one to come runs `run`. True once all have come."""
        with self._lock:
            for other, earlier in self._calls.items():
                if earlier != call and self.error is None:
                    self.error = (
                        CollectiveMismatchError,
                        f"ranks disagree on what they run together: "
                        f"rank {self.ranks[other]} calls {earlier}, "
                        f"rank {self.ranks[rank]} calls {call}.",
                    )
                    self.ended.set()
            self._calls[rank] = call
            if x is not None:
                self._xs[rank] = x
            if out is not None:
                self._outs[rank] = out
            complete = len(self._calls) == len(self.ranks)
        if complete and self.error is None:
            try:
                run([self._xs[i] for i in sorted(self._xs)], [self._outs[i] for i in sorted(self._outs)])
            except Exception as error:
                self.error = (CollectiveError, f"{call} failed with {type(error).__name__}: {error}")
            self._xs, self._outs = {}, {}
            self.ended.set()
        return complete

    def missing(self) -> list[int]:
        """Give the global ranks that have not come yet."""
        with self._lock:
            return [rank for i, rank in enumerate(self.ranks) if i not in self._calls]


class _Attendance:
    """Pending: one rank's part in a meeting."""

    open = False

    def __init__(self, hub: Hub, meeting: _Meeting, rank: int, call: str) -> None:
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
        missing = self._meeting.missing()
        self._hub.check(self._rank, missing, self._call)
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
        if src != dst and not self._receipt.arrived.is_set():
            self._hub.check(dst, [src], f"recv from rank {src} with tag {user_tag(tag)}")
        self._receipt.arrived.wait(min(_LONGEST_PAUSE, waited + expected))


class ThreadsChannel:
    """The collectives of one group of rank threads, as one of them sees them."""

    def __init__(self, hub: Hub, ranks: tuple[int, ...], rank: int) -> None:
        self._hub = hub
        self._ranks = ranks
        self._rank = rank
        self._place = ranks.index(rank)
        self._seq = 0

    def all_reduce(self, x: Array, out: Array, op: ReduceOp) -> _Attendance:
        return self._come(
            f"all_reduce({_sketch(x)}, op={op!r})",
            x,
            out,
            lambda xs, outs: reference.all_reduce(xs, outs, op),
        )

    def all_gather(self, x: Array, out: Array) -> _Attendance:
        return self._come(f"all_gather({_sketch(x)})", x, out, reference.all_gather)

    def reduce_scatter(self, x: Array, out: Array, op: ReduceOp) -> _Attendance:
        return self._come(
            f"reduce_scatter({_sketch(x)}, op={op!r})",
            x,
            out,
            lambda xs, outs: reference.reduce_scatter(xs, outs, op),
        )

    def all_to_all(self, x: Array, out: Array) -> _Attendance:
        return self._come(f"all_to_all({_sketch(x)})", x, out, reference.all_to_all)

    def broadcast(self, x: Array, root: int) -> _Attendance:
        return self._come(
            f"broadcast({_sketch(x)}, src={self._ranks[root]})",
            x,
            None,
            lambda xs, outs: reference.broadcast(xs, root),
        )

    def reduce(self, x: Array, out: Array | None, op: ReduceOp, root: int) -> _Attendance:
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
        meeting = self._hub.meet(self._ranks, self._seq)
        if meeting.come(self._place, call, x, out, run):
            self._hub.forget(self._ranks, self._seq)
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

    def __init__(self, hub: Hub, rank: int, name: str = "threads") -> None:
        self.name = name
        self.rank = self.local_rank = rank
        self.size = self.local_size = hub.size
        self.hostname = socket.gethostname()
        self._hub = hub

    def connect(self, ranks: tuple[int, ...]) -> _Connected:
        return _Connected(ThreadsChannel(self._hub, ranks, self.rank))

    def send(self, x: Array, dst: int, tag: int) -> Finished:
        self._hub.mailbox.send(x, self.rank, dst, tag)
        return Finished()

    def recv(self, out: Array, src: int, tag: int) -> _Delivery:
        return _Delivery(self._hub, self._hub.mailbox.receive(out, src, self.rank, tag))

    def leave(self) -> None:
        """Return at once: what was sent lies in the hub."""

    def abort(self, code: int) -> None:
        self._hub.fail(self.rank, f"exit code {code}")

    def close(self) -> None:
        """Nothing to free: the hub goes when its last rank does."""


def _sketch(x: Array) -> str:
    return f"{x.dtype}{list(x.shape)}"
