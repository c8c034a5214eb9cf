"""Memory for results that other ranks of the host write into: arenas, which they map when they see one.

A rank reserves its own and needs nobody for it; the others need a number and a place. A block goes back when
the last array over it goes. Nobody writes into it then: others do so during an operation only, which holds
the array.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.shm.memory import Mapping, create, open_of
from shardwise.collectives.shm.room import memory_left

__all__ = ["Arenas", "Block", "Reach", "arenas"]

_ARENA = 1 << 26  # bytes, or what is asked for
_MOST = 1 << 28  # bytes of all arenas of a process
_MARGIN = 8  # a new arena takes at most this part of what the machine has left
_ALIGN = 4096
_POPULATE_WRITE = 23  # of madvise, since Linux 5.14


class Block(NamedTuple):
    """A block of this process, which is its until no array over `memory` is left."""

    memory: ctypes.Array[ctypes.c_uint8]
    place: tuple[int, int, int]  # for the others: descriptor and bytes of the arena, and where in it

    def bytes(self) -> Array:
        """Give the memory as an array, which keeps it alive."""
        return np.frombuffer(memoryview(self.memory), np.uint8) if len(self.memory) else np.empty(0, np.uint8)


class Arenas:
    """The arenas of this process, and what of them is free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mappings: list[tuple[int, Mapping]] = []  # with the descriptor of each
        self._free: list[tuple[int, int, int]] = []  # (arena, begin, end), in order
        self._back: deque[tuple[int, int, int]] = deque()  # what finalizers give back: they take no lock

    def block(self, nbytes: int) -> Block | None:
        """Give a block of memory; None if there is no more."""
        room = -(-max(nbytes, 1) // _ALIGN) * _ALIGN
        with self._lock:
            while self._back:
                self._give_back(self._back.popleft())
            found = self._take(room)
            if found is None and self._grow(room):
                found = self._take(room)
            if found is None:
                return None
            number, begin, end = found
            descriptor, mapping = self._mappings[number]
        memory = (ctypes.c_uint8 * nbytes).from_address(mapping.address + begin)
        weakref.finalize(memory, self._back.append, (number, begin, end)).atexit = False
        return Block(memory, (descriptor, mapping.nbytes, begin))

    def _take(self, room: int) -> tuple[int, int, int] | None:
        for place, (number, begin, end) in enumerate(self._free):
            if end - begin >= room:
                self._free[place : place + 1] = [(number, begin + room, end)] if end - begin > room else []
                return number, begin, begin + room
        return None

    def _give_back(self, freed: tuple[int, int, int]) -> None:
        merged: list[tuple[int, int, int]] = []
        for number, begin, end in sorted([*self._free, freed]):
            if merged and merged[-1][0] == number and merged[-1][2] == begin:
                merged[-1] = (number, merged[-1][1], end)
            else:
                merged.append((number, begin, end))
        self._free = merged

    def _grow(self, room: int) -> bool:
        nbytes = max(room, _ARENA)
        left = memory_left()
        taken = sum(mapping.nbytes for _, mapping in self._mappings)
        if taken + nbytes > _MOST or (left is not None and nbytes > left // _MARGIN):
            return False
        try:
            descriptor = create(nbytes)
            mapping = Mapping(descriptor, nbytes)
        except OSError:
            return False
        _populate(mapping)
        self._mappings.append((descriptor, mapping))
        self._free.append((len(self._mappings) - 1, 0, nbytes))
        return True


class Reach:
    """The arenas of other processes, as this one has mapped them."""

    def __init__(self) -> None:
        self._mapped: dict[tuple[int, int], Array] = {}

    def bytes(self, pid: int, where: Sequence[int], nbytes: int) -> Array:
        """Give a block of another process as bytes.

        Raises
        ------
        OSError
            If the system does not let this process.
        """
        descriptor, arena, offset = where
        found = self._mapped.get((pid, descriptor))
        if found is None:
            opened = open_of(pid, descriptor)
            try:
                mapping = Mapping(opened, arena)
            finally:
                os.close(opened)
            _populate(mapping)
            found = self._mapped[pid, descriptor] = mapping.bytes()
        return found[offset : offset + nbytes]


def _populate(mapping: Mapping) -> None:
    """Have the pages at hand, where the system can, and not one fault for each of them later."""
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.madvise(mapping.address, -(-mapping.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE, _POPULATE_WRITE)


_own: Arenas | None = None


def arenas() -> Arenas:
    """Give the arenas of this process."""
    global _own
    if _own is None:
        _own = Arenas()
    return _own


def _forget() -> None:
    """A forked child would write into its parent's."""
    global _own
    _own = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
