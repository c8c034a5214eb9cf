"""Memory that this worker shares with others of its host: it writes large arrays there, and lends it.

A segment is an anonymous file in memory. Its descriptor goes to the other worker once, who maps it, hands out
arrays that lie in it, and gives it back when the last of them is gone; then it is written again. So a large
array is copied once on its way, into pages that both have had before.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwise.backend import Array

__all__ = ["LENT", "Lender", "Segment"]

LENT = 1 << 18
"""Bytes from which a buffer is lent."""

_SMALLEST = 1 << 20  # bytes of a segment
_KEPT_LARGEST = 1 << 28  # larger ones are not kept for a next time
_KEPT = 1 << 28  # bytes that are kept for one worker while nothing is in them


@dataclass(slots=True, eq=False)
class Segment:
    """One file in memory, mapped here.

    Attributes
    ----------
    number : int
    size : int
    fd : int
    memory : array of uint8
    known : bool
        Whether the other worker has its descriptor.
    """

    number: int
    size: int
    fd: int
    memory: Array
    known: bool = False

    @staticmethod
    def make(number: int, size: int) -> Segment:
        """Make one; OSError where there is no memory for it."""
        fd = os.memfd_create("shardwise-rpc", os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, size)
            memory = np.frombuffer(mmap.mmap(fd, size, mmap.MAP_SHARED), np.uint8)
        except BaseException:
            os.close(fd)
            raise
        return Segment(number, size, fd, memory)


class Lender:
    """What one worker lends to another of its host. Any thread may call its methods.

    Parameters
    ----------
    most : int
        Bytes of all segments together.
    """

    def __init__(self, most: int) -> None:
        self._most = most if sys.platform == "linux" else 0
        self._lock = threading.Lock()
        self._free: list[Segment] = []
        self._lent: dict[int, Segment] = {}
        self._bytes = 0
        self._numbers = 0
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the segments that there are."""
        return self._bytes

    def lend(self, buffers: Sequence[Any]) -> tuple[list[int], list[Segment]]:
        """Copy what is large into segments.

        Returns
        -------
        list of int
            For each buffer 0, or 1 + the number of the segment that it lies in now; empty if all are 0.
        list of Segment
            Those among them that the other worker does not know yet.
        """
        where, fresh = [0] * len(buffers), []
        for i, buffer in enumerate(buffers):
            if buffer.nbytes < LENT:
                continue
            segment = self._take(buffer.nbytes)
            if segment is None:
                continue
            segment.memory[: buffer.nbytes] = np.frombuffer(buffer, np.uint8)
            where[i] = 1 + segment.number
            if not segment.known:
                segment.known = True
                fresh.append(segment)
        return (where if any(where) else []), fresh

    def released(self, number: int) -> bool:
        """Take a segment back; True if it is not kept, and the other worker may forget it."""
        with self._lock:
            segment = self._lent.pop(number, None)
            if segment is None:
                return False
            if segment.size <= _KEPT_LARGEST and sum(each.size for each in self._free) < _KEPT:
                self._free.append(segment)
                return False
            self._drop(segment)
            return True

    def close(self) -> None:
        """Lend nothing any more; what was lent goes on to exist for who has it."""
        with self._lock:
            self._closed = True
            for segment in (*self._free, *self._lent.values()):
                self._drop(segment)
            self._free.clear()
            self._lent.clear()

    def _take(self, nbytes: int) -> Segment | None:
        with self._lock:
            fits = [each for each in self._free if nbytes <= each.size <= 4 * max(nbytes, _SMALLEST)]
            if fits:
                segment = min(fits, key=lambda each: each.size)
                self._free.remove(segment)
            else:
                size = _rounded(nbytes)
                if self._closed or self._bytes + size > self._most:
                    return None
                try:
                    segment = Segment.make(self._numbers, size)
                except OSError:
                    return None
                self._numbers += 1
                self._bytes += size
            self._lent[segment.number] = segment
            return segment

    def _drop(self, segment: Segment) -> None:
        self._bytes -= segment.size
        os.close(segment.fd)
        segment.memory = np.empty(0, np.uint8)


def _rounded(nbytes: int) -> int:
    """Give the size of a segment for so many bytes: few sizes, so that they fit again."""
    if nbytes > _KEPT_LARGEST:
        return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    return max(_SMALLEST, 1 << (nbytes - 1).bit_length())
