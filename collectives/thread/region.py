"""Memory that ranks of one process have put into one place, and the signals that go with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from shardwise.backend.array import Array

__all__ = ["Region"]


class Region:
    """The memory of all ranks of a group, and the signals between them.

    Parameters
    ----------
    parts : sequence of arrays
        Of each rank.
    """

    def __init__(self, parts: Sequence[Array]) -> None:
        self.parts = parts
        self._signals: dict[tuple[int, int, int], threading.Semaphore] = {}
        self._lock = threading.Lock()

    def signal(self, sender: int, receiver: int, channel: int) -> threading.Semaphore:
        """Give what counts the signals on a channel from one rank to another."""
        with self._lock:
            return self._signals.setdefault((sender, receiver, channel), threading.Semaphore(0))
