"""Operations that nobody waits for, and that do not end: somebody should say so."""

from __future__ import annotations

import logging
import math
import threading
import weakref
from time import perf_counter
from typing import Any

from shardwise.collectives.lane import Overdue
from shardwise.collectives.progress import Progress
from shardwise.collectives.work import Work

__all__ = ["Watchdog"]

_log = logging.getLogger(__name__)


class Watchdog:
    """Warns once of each asynchronous operation that is overdue while no thread waits for it.

    Parameters
    ----------
    progress : Progress
        Knows the operations.
    overdue : callable
        Says why one does not end.
    """

    def __init__(self, progress: Progress, overdue: Overdue) -> None:
        self._progress = progress
        self._overdue = overdue
        self._warned: weakref.WeakSet[Work[Any]] = weakref.WeakSet()

    def look(self) -> None:
        """Look at all lanes once. It is quick: what takes time is left to a thread."""
        for lane in self._progress.lanes():
            work = lane.head()
            if isinstance(work, Work) and not (lane.attended or work.given_up or work in self._warned):
                record = work.record
                if math.isnan(record.end) and perf_counter() - record.start > work.timeout:
                    self._warned.add(work)
                    warn = threading.Thread(
                        target=self._warn, args=(work,), name="shardwise-watchdog", daemon=True
                    )
                    warn.start()

    def _warn(self, work: Work[Any]) -> None:
        said = self._overdue(work.record, work.timeout, False)
        if math.isnan(work.record.end):
            _log.warning("nobody waits for it, but %s", said)
