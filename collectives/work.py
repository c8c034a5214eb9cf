"""A handle on an operation that was issued and may still be running."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

from shardwise.backend.errors import CollectiveError, CollectiveTimeoutError, ShardwiseError
from shardwise.collectives.lane import Lane
from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Pending
from shardwise.collectives.timeout import Timeout, seconds

__all__ = ["Ended", "Work"]

T = TypeVar("T")

# What an operation takes once all ranks have come, in seconds and seconds per byte (1 GB/s); it decides
# how long a waiting rank stays alert, and need not be right.
_LATENCY = 20e-6
_PER_BYTE = 1e-9
_TRIES = 3  # tests between two looks at the clock


class Work(Generic[T]):
    """One operation: pending, then done or failed, once.

    The arrays of the operation are kept alive until it has ended, also when nobody keeps the work. Writing
    its input, or reading its result, before `wait` has returned is a race.

    Attributes
    ----------
    record : Record
        What the ledger says of it.
    rank : int
        Global rank that issued it.
    timeout : float
        Seconds that `wait` waits when it is not told.
    given_up : bool
        Whether a wait for it has raised that it is overdue.
    """

    __slots__ = (
        "__weakref__",
        "_done",
        "_error",
        "_finish",
        "_lane",
        "_result",
        "_start",
        "given_up",
        "pending",
        "rank",
        "record",
        "timeout",
    )

    _result: T

    def __init__(
        self,
        lane: Lane,
        record: Record,
        rank: int,
        timeout: float,
        start: Callable[[], Pending] | None,
        finish: Callable[[], T],
        pending: Pending | None = None,
    ) -> None:
        self.record = record
        self.rank = rank
        self.timeout = timeout
        self.pending = pending
        self._lane = lane
        self._start = start
        self._finish: Callable[[], T] | None = finish
        self.given_up = False
        self._done = False
        self._error: Exception | None = None

    def is_completed(self) -> bool:
        """Say whether the operation has ended, well or not, without waiting."""
        return self.is_settled()

    def is_settled(self) -> bool:
        """Say whether `wait` would return at once, without waiting; a device may still have to do it."""
        if not self._done:
            self._lane.advance()
        return self._done

    def wait(self, timeout: Timeout | None = None) -> T:
        """Wait for the end of the operation and return its result, each time the same.

        Parameters
        ----------
        timeout : float or timedelta, optional
            Seconds to wait; by default the time-out of the group. After a time-out the operation is still
            pending, since other ranks may have taken part in it already: it goes on in the background, and
            may be waited for again.

        Returns
        -------
        The result of the operation.

        Raises
        ------
        CollectiveTimeoutError
            If it has not ended in time.
        WorldAbortedError
            If another rank has failed meanwhile.
        CollectiveError
            If the operation itself failed.
        """
        if not self._done:
            self._lane.advance()
            if not self._done:
                self._attend(timeout)
        if self._error is not None:
            raise self._failure(self._error)
        return self._result

    def pause(self, waited: float, expected: float) -> None:
        """Do nothing for a moment that suits a rank which waits for this operation; see `Pending`."""
        self._lane.pause(waited, expected)

    def issue(self) -> None:
        """Begin the operation; its lane calls this, once."""
        if self._start is not None:
            try:
                self.pending = self._start()
            except Exception as error:
                self._end(error)

    def settle(self) -> bool:
        """Advance the operation and take up its result; its lane calls this until it says True."""
        pending, finish = self.pending, self._finish
        if pending is None or finish is None:
            return self._done
        try:
            if not pending.test():
                return False
            self._result = finish()
        except Exception as error:
            self._end(error)
            return True
        self._end(None)
        return True

    def fail(self, error: Exception) -> None:
        """End the operation with what `wait` is to raise."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.record.end = perf_counter()
        self._error = error
        self._start = self._finish = self.pending = None
        self._done = True

    def _failure(self, error: Exception) -> Exception:
        """Give an error of ours, made once, that says which operation failed."""
        if not isinstance(error, ShardwiseError):
            failure = CollectiveError(
                f"rank {self.rank}: {self.record.where}, failed with {type(error).__name__}: {error}"
            )
            failure.__cause__ = error
            self._error = error = failure
        return error

    def _attend(self, asked: Timeout | None) -> None:
        timeout = self.timeout if asked is None else seconds(asked)
        lane = self._lane
        expected = _LATENCY + _PER_BYTE * self.record.nbytes * self.record.size
        began = perf_counter()
        lane.attended = True
        try:
            while True:
                for _ in range(_TRIES):
                    lane.advance()
                    if self._done:
                        return
                waited = perf_counter() - began
                if waited >= timeout:
                    self.given_up = True
                    raise CollectiveTimeoutError(self._overdue(timeout, asked is not None))
                try:
                    lane.pause(waited, expected)
                except CollectiveError as error:  # somebody is gone; say what waits for them, and where
                    raise type(error)(f"{error} ({self.record.where})") from None
        finally:
            lane.attended = False
            if not self._done and lane.watch is not None:
                lane.watch(lane)  # the wait was given up; the others may wait for this rank's part in it

    def _overdue(self, timeout: float, asked: bool) -> str:
        record, why = self.record, self._lane.overdue
        if why is not None:
            return why(record, timeout, asked)
        return (
            f"rank {self.rank}: {record.op} #{record.seq} of {record.group} did not end within {timeout:g} s "
            f"({record.dtype}{list(record.shape)}, called at {record.source}): not all ranks have come. "
            f"See that all of them call it, in the same order; or give it more time, by timeout= of wait or "
            f"of the group."
        )

    def __repr__(self) -> str:
        state = "failed" if self._error is not None else "done" if self._done else "pending"
        return f"Work({self.record.op} #{self.record.seq} of {self.record.group}, {state})"


class Ended(Work[T]):
    """The handle on an operation that had ended well before anybody could wait for it."""

    __slots__ = ()

    def __init__(self, record: Record, rank: int, result: T) -> None:
        self.record = record
        self.rank = rank
        self._result = result
        self._done = True
        self._error = None
