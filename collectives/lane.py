"""The order of a group's operations: issued in the order of the calls, ended in that order.

MPI and NCCL match the collectives of one communicator by the order in which each rank issues them. An
operation of several phases issues communication again later, when something else may have been issued
behind it on this rank and not on another. So the lane issues at once whatever follows an operation that
has issued all it will, and holds back what follows one that has not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from shardwise.collectives.ledger import Record
from shardwise.collectives.pending import Pending

__all__ = ["Entry", "Lane", "Overdue"]

Overdue: TypeAlias = Callable[[Record, float, bool], str]


class Entry(Protocol):
    """What stands in a lane: something to issue once, then to test until it has ended."""

    pending: Pending | None

    def issue(self) -> None:
        """Begin; a failure is kept and ends the entry, and is not raised."""

    def settle(self) -> bool:
        """Advance; True once the entry has ended, well or not."""


class Lane:
    """A queue of entries, of which the head is tested and as many as possible are issued.

    Any thread may submit and advance; one at a time does.

    Parameters
    ----------
    lock : threading.Lock, optional
        Shared by the lanes of a transport that takes one thread at a time.
    overdue : callable, optional
        Says why an operation does not end, from (record, seconds waited, whether the user asked for these).

    Attributes
    ----------
    attended : bool
        Whether some thread waits in `pause` and `advance` by turns, so that the background one need not.
    """

    __slots__ = ("_lock", "_queue", "_unissued", "attended", "overdue")

    def __init__(self, lock: threading.Lock | None = None, overdue: Overdue | None = None) -> None:
        self._lock = lock or threading.Lock()
        self._queue: deque[Entry] = deque()
        self._unissued = 0  # entries at the end of the queue that were not issued yet
        self.attended = False
        self.overdue = overdue

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether something in it may yet be issued, or may issue something."""
        if self._unissued:
            return True
        with self._lock:
            return any(entry.pending is not None and entry.pending.open for entry in self._queue)

    def head(self) -> Entry | None:
        """Give what is first in the lane, if anything is."""
        try:
            return self._queue[0]
        except IndexError:
            return None

    def enter(self) -> bool:
        """Take the lane for an operation that needs no entry, if nothing is in it; then `leave` it.

        Returns
        -------
        bool
            False where something is in the lane, or another thread is at it.
        """
        if self._queue or not self._lock.acquire(False):
            return False
        if self._queue:
            self._lock.release()
            return False
        return True

    def adopt(self, entry: Entry) -> None:
        """Put an entry that was issued already into the lane that this thread has entered."""
        self._queue.append(entry)

    def leave(self) -> None:
        """Give back what `enter` has taken."""
        self._lock.release()

    def submit(self, entry: Entry) -> None:
        """Put `entry` at the end, and issue it now unless the one before may still issue something."""
        with self._lock:
            self._queue.append(entry)
            if len(self._queue) == 1:
                entry.issue()
            else:
                self._unissued += 1
                self._issue()

    def advance(self) -> bool:
        """Test the head, drop what has ended, issue what may be issued now.

        Returns
        -------
        bool
            Whether an entry has ended. False at once where another thread is at it.
        """
        if not self._lock.acquire(False):
            return False
        ended = False
        try:
            queue = self._queue
            while queue and queue[0].settle():
                queue.popleft()
                ended = True
                if self._unissued:
                    self._issue()
            if self._unissued:
                self._issue()
        finally:
            self._lock.release()
        return ended

    def pause(self, waited: float, expected: float) -> None:
        """Wait a moment as suits the head, which everything behind it waits for too."""
        try:
            pending = self._queue[0].pending
        except IndexError:
            return
        if pending is not None:
            pending.pause(waited, expected)

    def _issue(self) -> None:
        queue = self._queue
        while self._unissued:
            place = len(queue) - self._unissued
            if place and (before := queue[place - 1].pending) is not None and before.open:
                return
            self._unissued -= 1
            queue[place].issue()
