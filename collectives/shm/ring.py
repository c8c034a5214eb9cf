"""The members of a group on one host, each with a segment that all map, and the operation under way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.shm import place
from shardwise.collectives.shm.memory import Mapping

__all__ = ["Ring"]

_ALIGN = 64
_BLOCK = 8192  # what a fold is given at once
_FIRST_REGIONS = 64


class Ring:
    """One rank's view of a ring: the numbers that the compiled calls work on, and what they point to.

    Parameters
    ----------
    rank : int
        Place in the group.
    segments : sequence of Mapping
        Of all ranks, of `place.SEGMENT` bytes each, zeros at first.
    pids : sequence of int
        The processes of all ranks.

    Attributes
    ----------
    state : array of int64
    rank, size : int
    """

    def __init__(self, rank: int, segments: Sequence[Mapping], pids: Sequence[int]) -> None:
        self.rank = rank
        self.size = len(segments)
        self._segments = segments
        self._scratch = np.zeros(_BLOCK + self.size * place.PIECE + _ALIGN, np.uint8)
        self._limit = np.zeros(8, np.int64)
        self.state = np.zeros(place.FIXED + 4 * self.size, np.int64)
        state = self.state
        state[place.RANK] = rank
        state[place.SIZE] = self.size
        state[place.SCRATCH] = -(-self._scratch.ctypes.data // _ALIGN) * _ALIGN
        state[place.LIMIT] = self._limit.ctypes.data
        for member in range(self.size):
            state[place.FIXED + member] = segments[member].address
            state[place.FIXED + 3 * self.size + member] = pids[member]
        self._tables: list[Array] = []  # an older one may be in use by another thread
        self._regions: dict[int, list[Mapping]] = {}
        self._enlarge(_FIRST_REGIONS)

    def add_region(self, parts: Sequence[Mapping]) -> int:
        """Note a region of symmetric memory, of which rank i has ``parts[i]``; all ranks do, in one order.

        Returns
        -------
        int
            Its number, the same on all ranks.
        """
        number = int(self.state[place.REGIONS_END])
        if number == len(self._tables[-1]):
            self._enlarge(2 * number)
        row = self._tables[-1][number]
        row[place.REGION_HEAD :] = [part.address for part in parts]
        row[0] = parts[self.rank].nbytes
        # The parts of others are mapped as long as this rank has an array over its own.
        self._regions[number] = [part for i, part in enumerate(parts) if i != self.rank]
        self.state[place.REGIONS_END] = number + 1
        parts[self.rank].when_released(lambda: self._drop_region(number))
        return number

    def find_region(self, address: int, nbytes: int) -> tuple[int, int] | None:
        """Give the number of the region that holds these bytes, and where they begin in it."""
        table = self._tables[-1]
        for number in list(self._regions):  # an array may go meanwhile, and its region with it
            begin = int(table[number, place.REGION_HEAD + self.rank])
            if begin <= address and address + nbytes <= begin + int(table[number, 0]):
                return number, address - begin
        return None

    def part(self, number: int, member: int) -> tuple[int, int]:
        """Give the address of a rank's part of a region in this process, and its bytes."""
        row = self._tables[-1][number]
        return int(row[place.REGION_HEAD + member]), int(row[0])

    def others_parts(self, number: int) -> list[Mapping]:
        """Give the parts of a region that the other ranks have, in rank order."""
        return self._regions[number]

    def header(self, member: int) -> list[int]:
        """Read what a rank has said of the operation that this one is in, for a message."""
        turn = int(self.state[place.TURN]) & 1
        begin = place.HEADERS + turn * place.HEADER_STEP
        words = self._segments[member].bytes()[begin : begin + 64].view(np.int64)
        said: list[int] = words.tolist()
        return said

    def sent_along(self, words: int) -> list[list[int]]:
        """Read the numbers that each rank has sent along with the header of this operation."""
        begin = place.EAGER + (int(self.state[place.TURN]) & 1) * place.EAGER_ROOM
        end = begin + 8 * words
        return [each.bytes()[begin:end].view(np.int64).tolist() for each in self._segments]

    def pid(self, member: int) -> int:
        """Give the process of a rank."""
        return int(self.state[place.FIXED + 3 * self.size + member])

    def close(self) -> None:
        """Unmap the segments. Regions stay as long as arrays over them do."""
        self._segments = ()

    def _drop_region(self, number: int) -> None:
        state = self.state
        self._tables[-1][number, 0] = 0
        self._regions.pop(number, None)
        first = int(state[place.REGIONS_BEGIN])
        while first < state[place.REGIONS_END] and first not in self._regions:
            first += 1
        state[place.REGIONS_BEGIN] = first

    def _enlarge(self, rows: int) -> None:
        table = np.zeros((rows, place.REGION_HEAD + self.size), np.int64)
        if self._tables:
            table[: len(self._tables[-1])] = self._tables[-1]
        self._tables.append(table)
        self.state[place.REGIONS] = table.ctypes.data
