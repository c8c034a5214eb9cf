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

    Any thread may submit and advance; one at a time does. The lock is taken by ``with`` alone: a signal's
    handler may raise between any two steps of Python, and only so is the lock always given back.

    Parameters
    ----------
    lock : threading.Lock, optional
        Shared by the lanes of a transport that takes one thread at a time.
    overdue : callable, optional
        Says why an operation does not end, from (record, seconds waited, whether the user asked for these).
    watch : callable, optional
        Has a thread advance the lane until it is empty.

    Attributes
    ----------
    attended : bool
        Whether some thread waits in `pause` and `advance` by turns, so that the background one need not.
    lock : threading.Lock
        Held by the thread that is at it.
    """

    __slots__ = ("_queue", "_unissued", "attended", "lock", "overdue", "watch")

    def __init__(
        self,
        lock: threading.Lock | None = None,
        overdue: Overdue | None = None,
        watch: Callable[[Lane], None] | None = None,
    ) -> None:
        self.lock = lock or threading.Lock()
        self._queue: deque[Entry] = deque()
        self._unissued = 0  # entries at the end of the queue that were not issued yet
        self.attended = False
        self.overdue = overdue
        self.watch = watch

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether something in it may yet be issued, or may issue something."""
        if self._unissued:
            return True
        with self.lock:
            return any(entry.pending is not None and entry.pending.open for entry in self._queue)

    def head(self) -> Entry | None:
        """Give what is first in the lane, if anything is."""
        try:
            return self._queue[0]
        except IndexError:
            return None

    @property
    def is_busy(self) -> bool:
        """Whether something is in it, or a thread is at it."""
        return bool(self._queue) or self.lock.locked()

    def adopt(self, entry: Entry) -> None:
        """Put in an entry that was issued already; nothing is in it, and this thread holds the lock."""
        self._queue.append(entry)

    def submit(self, entry: Entry) -> None:
        """Put `entry` at the end, and issue it now unless the one before may still issue something."""
        with self.lock:
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
            Whether an entry has ended. False where another thread is at it, which is not waited for.
        """
        if self.lock.locked():
            return False
        ended = False
        with self.lock:
            queue = self._queue
            while queue and queue[0].settle():
                queue.popleft()
                ended = True
                if self._unissued:
                    self._issue()
            if self._unissued:
                self._issue()
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
