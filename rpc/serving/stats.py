"""Counts of calls: how many, how many bytes, how long they took."""

from __future__ import annotations

import threading
from collections.abc import Mapping

__all__ = ["Stats"]

_BUCKETS = 64  # of times, two to each doubling, from 1 µs up
_FINEST = 1e-6


class Stats:
    """What one worker has called and served, by the other worker and what was called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, int, str], _Row] = {}

    def add(self, side: str, peer: int, label: str, nbytes: int, seconds: float, failed: bool) -> None:
        """Count one call; `side` is ``"called"`` or ``"served"``."""
        key = (side, peer, label)
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = _Row()
            row.count += 1
            row.failed += failed
            row.nbytes += nbytes
            row.seconds += seconds
            row.buckets[_bucket(seconds)] += 1

    def table(self) -> list[dict[str, str | int | float]]:
        """Give one row for each side, worker and function: counts, bytes, seconds."""
        with self._lock:
            rows = [(key, row.described()) for key, row in self._rows.items()]
        return [{"side": side, "peer": peer, "what": label, **row} for (side, peer, label), row in rows]

    def totals(self) -> Mapping[str, int]:
        """Give how many calls were made and served."""
        with self._lock:
            return {
                side: sum(row.count for key, row in self._rows.items() if key[0] == side)
                for side in ("called", "served")
            }


class _Row:
    __slots__ = ("buckets", "count", "failed", "nbytes", "seconds")

    def __init__(self) -> None:
        self.count = self.failed = self.nbytes = 0
        self.seconds = 0.0
        self.buckets = [0] * _BUCKETS

    def described(self) -> dict[str, str | int | float]:
        return {
            "count": self.count,
            "failed": self.failed,
            "bytes": self.nbytes,
            "seconds": self.seconds,
            "p50": self._quantile(0.5),
            "p99": self._quantile(0.99),
        }

    def _quantile(self, share: float) -> float:
        """Give the time that this share of the calls kept below, to within a factor of 1.5."""
        left = share * self.count
        for number, count in enumerate(self.buckets):
            left -= count
            if left <= 0:
                return float(_FINEST * 2 ** ((number + 1) / 2))
        return float("inf")


def _bucket(seconds: float) -> int:
    # Two buckets to each doubling, without a logarithm: the first bit behind the leading one tells which.
    ticks = int(seconds / _FINEST)
    if ticks < 1:
        return 0
    bits = ticks.bit_length()
    upper = bits > 1 and ticks >> (bits - 2) & 1
    return min(_BUCKETS - 1, 2 * (bits - 1) + bool(upper))
