"""Who is still there: what ranks tell of themselves, what the kernel tells of them, and who is silent.

Ranks form a star with rank 0 in the middle, which passes news on. A connection that ends is a death, at
once. A rank that does not beat is *silent*, no more: it may be held in compiled code, or stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Liveness", "Peer", "State"]

State: TypeAlias = Literal["alive", "silent", "left", "failed", "dead"]

_SILENT_AFTER = 3.5  # beats that are missing


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of one rank.

    Attributes
    ----------
    state : {"alive", "silent", "left", "failed", "dead"}
        In words: it beats; it has not for a while; it came to its end; it raised or exited; its process is
        gone without a word.
    seconds : float
        Since it was last heard (alive, silent), or since the news of its end came.
    when : float
        Of its end, by its own ``time.time()``; 0.0 if it has not ended.
    reason : str
        Of a death or failure.
    """

    state: State
    seconds: float
    when: float = 0.0
    reason: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether it will take part in nothing any more."""
        return self.state in ("left", "failed", "dead")


class Liveness:
    """The states of all ranks, as one of them knows them. Any thread may read.

    Parameters
    ----------
    size : int
    interval : float
        Seconds between beats.

    Attributes
    ----------
    news : int
        Counts the ranks that have left, failed or died, so that a glance tells whether there is news.
    """

    def __init__(self, size: int, interval: float) -> None:
        self.news = 0
        self._interval = interval
        now = time.monotonic()
        self._heard = [now] * size
        self._ended: dict[int, tuple[State, float, float, str]] = {}
        self._changed = threading.Condition()
        self._watchers: list[Callable[[int, Peer], None]] = []

    def heard(self, rank: int, ago: float = 0.0) -> None:
        """Note that `rank` gave a sign of life, perhaps some seconds `ago`."""
        moment = time.monotonic() - ago
        if moment > self._heard[rank]:
            self._heard[rank] = moment

    def silence(self, rank: int) -> float:
        """Give the seconds since `rank` was last heard."""
        return time.monotonic() - self._heard[rank]

    def ended(self, rank: int, state: State, when: float, reason: str) -> bool:
        """Note the end of `rank`; False if it was known to have ended. What it said itself counts more."""
        with self._changed:
            known = self._ended.get(rank)
            if known is not None and not (known[0] == "dead" and state != "dead"):
                return False
            self._ended[rank] = (state, time.monotonic(), when, reason)
            self.news += 1
            self._changed.notify_all()
            watchers = list(self._watchers)
        for watcher in watchers:
            watcher(rank, self.peer(rank))
        return True

    def peer(self, rank: int) -> Peer:
        """Give what is known of `rank`."""
        ended = self._ended.get(rank)
        if ended is not None:
            state, heard, when, reason = ended
            return Peer(state, time.monotonic() - heard, when, reason)
        silence = self.silence(rank)
        return Peer("silent" if silence > _SILENT_AFTER * self._interval else "alive", silence)

    def gone(self) -> dict[int, Peer]:
        """Give the ranks that have left, failed or died."""
        return {rank: self.peer(rank) for rank in list(self._ended)}

    def wait(self, known: int, seconds: float) -> None:
        """Wait until more than `known` ranks are gone, or for some time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._ended) > known, seconds)

    def watch(self, watcher: Callable[[int, Peer], None]) -> None:
        """Have `watcher` called with each rank that ends, on the thread that learns of it."""
        with self._changed:
            self._watchers.append(watcher)
            known = list(self._ended)
        for rank in known:
            watcher(rank, self.peer(rank))
