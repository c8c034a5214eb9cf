"""Symmetric memory of ranks that are threads of one process: everyone's memory, and signals, on one shelf."""

from __future__ import annotations

import math
import time
import weakref
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import CollectiveError, CollectiveTimeoutError
from shardwise.collectives.thread.hub import Hub
from shardwise.collectives.thread.region import Region

__all__ = ["ThreadRegions"]

_LONGEST_PAUSE = 0.05  # seconds between two looks at whether the others still run
_REFUSED = np.zeros(0, np.uint8)  # what a rank brings that has no memory


class ThreadRegions:
    """The regions of one group, as one of its ranks sees them.

    Parameters
    ----------
    hub : Hub
    ranks : tuple of int
        Of the group, in the world.
    place : int
        This rank's in the group.
    label : str
        Tells groups of equal ranks apart.
    """

    def __init__(self, hub: Hub, ranks: tuple[int, ...], place: int, label: str) -> None:
        self._hub = hub
        self._ranks = ranks
        self._place = place
        self._label = f"{label} memory"
        self._made = 0
        self._regions: dict[int, Region] = {}

    def empty(self, shape: Shape, dtype: np.dtype[Any], where: str) -> Array:
        """Make a region, and give this rank's part of it as an array; all ranks do.

        Raises
        ------
        CollectiveError
            If one of them does not have the memory; on all.
        CollectiveMismatchError
            If they disagree on how much it is.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        try:
            memory = np.zeros(max(nbytes, 1), np.uint8)
        except MemoryError:
            memory = _REFUSED
        number, self._made = self._made, self._made + 1
        region = self._meet(number, nbytes, memory)
        if not all(part.size for part in region.parts):
            raise CollectiveError(
                f"{where}: there is not enough memory for {nbytes} bytes on each rank; use smaller arrays."
            )
        # It does not own its memory, so views of it have it as their base: it goes with the last of them.
        own = np.frombuffer(memory.data, np.uint8)
        self._regions[number] = region
        weakref.finalize(own, self._regions.pop, number).atexit = False
        array: Array = own[:nbytes].view(dtype).reshape(shape)
        return array

    def buffer(self, x: Array, rank: int, where: str) -> Array:
        """Give the array of another rank that lies where `x` lies on this one."""
        region, offset = self._find(x, where)
        if rank == self._place:
            return x
        theirs: Array = region.parts[rank][offset : offset + x.nbytes].view(x.dtype).reshape(x.shape)
        return theirs

    def put_signal(self, x: Array, rank: int, channel: int, where: str) -> None:
        """Signal to a rank, which takes it by `wait_signal`."""
        self._find(x, where)[0].signal(self._place, rank, channel).release()

    def wait_signal(self, x: Array, rank: int, channel: int, timeout: float, where: str) -> None:
        """Wait for a signal of a rank, and take it.

        Raises
        ------
        CollectiveTimeoutError
            If none has come in time.
        """
        signal = self._find(x, where)[0].signal(rank, self._place, channel)
        began = time.monotonic()
        while not signal.acquire(timeout=min(_LONGEST_PAUSE, timeout)):
            if time.monotonic() - began >= timeout:
                raise CollectiveTimeoutError(f"{where} did not come within {timeout:g} s.")
            if rank != self._place:
                try:
                    self._hub.check(self._ranks[self._place], lambda: [self._ranks[rank]], where)
                except CollectiveError:
                    if signal.acquire(blocking=False):  # given just before that rank has ended
                        return
                    raise

    def _find(self, x: Array, where: str) -> tuple[Region, int]:
        if x.flags.c_contiguous:
            for region in list(self._regions.values()):
                part = region.parts[self._place]
                offset = x.ctypes.data - part.ctypes.data
                if offset >= 0 and offset + x.nbytes <= part.nbytes:
                    return region, offset
        raise CollectiveError(
            f"{where}: the array is not in symmetric memory of this group; make it by "
            f"empty_symmetric(shape, dtype, group)."
        )

    def _meet(self, number: int, nbytes: int, memory: Array) -> Region:
        """Bring this rank's memory, and give that of all when all have come."""
        call = f"empty_symmetric of {nbytes} bytes"
        hub, ranks, label = self._hub, self._ranks, self._label
        meeting = hub.meet(ranks, label, number)

        def gather(parts: list[Array], _: list[Array]) -> None:
            meeting.region = Region(parts)

        if meeting.come(self._place, call, memory, None, gather):
            hub.forget(ranks, label, number)
        while not meeting.ended.wait(_LONGEST_PAUSE):
            hub.check(ranks[self._place], meeting.missing, call)
        if meeting.error is not None or meeting.region is None:
            kind, message = meeting.error or (CollectiveError, f"{call} failed.")
            raise kind(message)
        return meeting.region
