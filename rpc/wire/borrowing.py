"""Memory that other workers of this host lend: mapped once, and given back when no array lies in it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

import numpy as np

from shardwise.backend import Array
from shardwise.rpc.wire.frame import FrameError

__all__ = ["Borrower"]


class Borrower:
    """The segments of other workers, on the thread of the loop.

    Parameters
    ----------
    give_back : callable
        ``give_back(src, number)`` is called when the last array in a segment is gone, on any thread, perhaps
        in the middle of something: it takes no lock.
    """

    def __init__(self, give_back: Callable[[int, int], None]) -> None:
        self._give_back = give_back
        self._segments: dict[tuple[int, int], Array] = {}

    def meet(self, src: int, number: int, fd: int) -> None:
        """Map a segment; the descriptor is closed."""
        try:
            size = os.fstat(fd).st_size
            self._segments[src, number] = np.frombuffer(mmap.mmap(fd, size, mmap.MAP_SHARED), np.uint8)
        except (OSError, ValueError) as error:
            raise FrameError(f"a segment that cannot be mapped: {error}") from error
        finally:
            os.close(fd)

    def memory(self, src: int, number: int, nbytes: int) -> memoryview:
        """Give the first bytes of a segment; it is given back when nothing refers to them any more."""
        segment = self._segments.get((src, number))
        if segment is None or nbytes > segment.nbytes:
            raise FrameError("a segment that was never lent")
        return np.asarray(_Lease(segment, nbytes, lambda: self._give_back(src, number))).data

    def forget(self, src: int, number: int) -> None:
        """Keep a segment no longer; arrays that lie in it keep it themselves."""
        self._segments.pop((src, number), None)

    def lost(self, src: int) -> None:
        """Forget all of a worker that is gone."""
        for key in [key for key in self._segments if key[0] == src]:
            del self._segments[key]


class _Lease:
    """What arrays in a segment refer to: NumPy keeps it as their base."""

    def __init__(self, segment: Array, nbytes: int, end: Callable[[], None]) -> None:
        self._segment = segment
        self._end = end
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (segment.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._end()
