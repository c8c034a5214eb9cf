"""What ranks that are threads of one process share: meetings, messages, and who has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, CollectiveMismatchError, WorldAbortedError
from shardwise.collectives.flight.account import Condition
from shardwise.collectives.flight.inquiry import Tell
from shardwise.collectives.layout import Stretch
from shardwise.collectives.progress import Progress
from shardwise.collectives.thread.mailbox import Mailbox
from shardwise.collectives.thread.region import Region

__all__ = ["Hub", "Meeting", "Run"]

Run = Callable[[list[Array], list[Array]], None]


class Hub:
    """What the ranks of one process share: meetings, messages, and who has ended.

    Parameters
    ----------
    size : int
        Number of ranks.

    Attributes
    ----------
    mailbox : Mailbox
    tellers : dict
        Of each rank that has a world, what tells where it is, and what keeps its record.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.mailbox = Mailbox()
        self.phases = Progress() if size > 1 else None
        self.tellers: dict[int, tuple[Tell, Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._meetings: dict[tuple[tuple[int, ...], str, int], Meeting] = {}
        self._ended: dict[int, str] = {}
        self._failure: str | None = None

    def meet(self, ranks: tuple[int, ...], label: str, seq: int) -> Meeting:
        """Give the meeting number `seq` of a group; the first to ask makes it."""
        with self._lock:
            return self._meetings.setdefault((ranks, label, seq), Meeting(ranks))

    def forget(self, ranks: tuple[int, ...], label: str, seq: int) -> None:
        """Drop a meeting to which all have come."""
        with self._lock:
            self._meetings.pop((ranks, label, seq), None)

    def leave(self, rank: int) -> None:
        """Note that `rank` has returned and will come to nothing any more."""
        with self._lock:
            self._ended[rank] = "has returned"

    def fail(self, rank: int | None, reason: str) -> None:
        """Note that `rank` has failed, so that the others stop waiting. The first failure counts."""
        with self._lock:
            if self._failure is None:
                self._failure = f"{'the caller' if rank is None else f'rank {rank}'} failed with {reason}"

    def ended(self) -> dict[int, Condition]:
        """Give the ranks that have returned."""
        with self._lock:
            return dict.fromkeys(self._ended, "left")

    def check(self, rank: int, needed: Callable[[], Sequence[int]], what: str) -> None:
        """Raise if a rank has failed, or one of those that are needed has ended, while `rank` waits.

        Who is `needed` is asked after who has ended: a rank may do what is waited for, and end, meanwhile.
        """
        with self._lock:
            failure = self._failure
            ended = dict(self._ended)
        gone = [other for other in needed() if other in ended]
        if failure is not None:
            raise WorldAbortedError(f"rank {rank} was stopped in {what}: {failure}.")
        if gone:
            raise CollectiveError(
                f"rank {rank} waits in {what}, but rank {gone[0]} has returned without it; "
                f"every rank of the group must take part, in the same order."
            )


class Meeting:
    """One collective of one group: everyone's arrays, and an event for its end."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.ended = threading.Event()
        self.error: tuple[type[CollectiveError], str] | None = None
        self.region: Region | None = None
        self._lock = threading.Lock()
        self._calls: dict[int, str] = {}
        self._xs: dict[int, Array] = {}
        self._outs: dict[int, Array] = {}
        self._sent: dict[int, Sequence[Stretch | None]] = {}
        self._received: dict[int, Sequence[Stretch | None]] = {}

    def come(
        self,
        rank: int,
        call: str,
        x: Array | None,
        out: Array | None,
        run: Run,
        sent: Sequence[Stretch | None] = (),
        received: Sequence[Stretch | None] = (),
    ) -> bool:
        """Bring one rank's arrays; the last one to come runs `run`. True once all have come.

        An exchange also brings the stretches of its arrays.
        """
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
            self._sent[rank], self._received[rank] = sent, received
            if x is not None:
                self._xs[rank] = x
            if out is not None:
                self._outs[rank] = out
            complete = len(self._calls) == len(self.ranks)
        if complete and self.error is None:
            try:
                run([self._xs[i] for i in sorted(self._xs)], [self._outs[i] for i in sorted(self._outs)])
            except CollectiveMismatchError as error:
                self.error = (CollectiveMismatchError, str(error))
            except Exception as error:
                self.error = (CollectiveError, f"{call} failed with {type(error).__name__}: {error}")
            self._xs, self._outs = {}, {}
            self.ended.set()
        return complete

    def stretches(self) -> tuple[list[Sequence[Stretch | None]], list[Sequence[Stretch | None]]]:
        """Give what every rank sends and receives in an exchange, in rank order.

        Raises
        ------
        CollectiveMismatchError
            If a rank sends more or less than another one receives.
        """
        ranks = range(len(self.ranks))
        sent, received = [self._sent[i] for i in ranks], [self._received[i] for i in ranks]
        for i in ranks:
            for j in ranks:
                goes, comes = _length(sent[i][j]), _length(received[j][i])
                if goes != comes:
                    raise CollectiveMismatchError(
                        f"ranks disagree on the sizes of what they exchange: rank {self.ranks[i]} sends "
                        f"{goes} elements to rank {self.ranks[j]}, which receives {comes}."
                    )
        return sent, received

    def missing(self) -> list[int]:
        """Give the global ranks that have not come yet."""
        with self._lock:
            return [rank for i, rank in enumerate(self.ranks) if i not in self._calls]


def _length(stretch: Stretch | None) -> int:
    return 0 if stretch is None else stretch[1] - stretch[0]
