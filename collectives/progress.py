"""The thread that advances asynchronous operations while their rank computes.

MPI moves data only while someone calls it. One thread per world tests the heads of all lanes that have
asynchronous operations, and sleeps in between: on a machine whose cores are all computing, every test
takes time from a matrix product.
"""

from __future__ import annotations

import threading
import time

from shardwise.collectives.lane import Lane

__all__ = ["Progress"]

# Seconds between two rounds of tests: short after something has ended, longer the longer nothing has.
_SHORTEST = 50e-6
_LONGEST = 1e-3
_GROWTH = 1.3
_IDLE = 10.0  # seconds without a lane after which the thread ends


class Progress:
    """Advances the lanes that were given to `watch`, until they are empty."""

    def __init__(self) -> None:
        self._lanes: set[Lane] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def watch(self, lane: Lane) -> None:
        """Advance `lane` until it is empty. The thread starts when it is needed."""
        with self._changed:
            if self._closed:
                return
            self._lanes.add(lane)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shardwise-progress", daemon=True)
                self._thread.start()
            self._changed.notify()

    def lanes(self) -> list[Lane]:
        """Give the lanes that are being advanced."""
        with self._changed:
            return list(self._lanes)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        with self._changed:
            return not any(len(lane) for lane in self._lanes)

    def close(self) -> None:
        """Stop the thread, whatever is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        nap = _SHORTEST
        while True:
            with self._changed:
                self._lanes = {lane for lane in self._lanes if len(lane)}
                while not self._lanes and not self._closed:
                    if not self._changed.wait(_IDLE) and not self._lanes:
                        self._thread = None  # the next call of watch starts another one
                        return
                    nap = _SHORTEST
                if self._closed:
                    return
                lanes = list(self._lanes)
            # A lane that somebody waits on is tested by that thread, more often than here.
            ended = [lane.advance() for lane in lanes if not lane.attended]
            nap = _SHORTEST if any(ended) else min(_LONGEST, nap * _GROWTH)
            time.sleep(nap)
