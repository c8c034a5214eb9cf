"""Device memory: handed out full of poison, and poisoned again when it is given back, in the order of its
stream.

As CuPy's pool does, memory belongs to the stream that was current when it was handed out: given back, it may
be used again at once by what comes next on that stream. Here, what comes next is poison. Another stream that
still works on it, and that nothing has ordered before, works on poison then.
"""

from __future__ import annotations

import bisect
import ctypes
import weakref
from typing import Any

import numpy as np
from cupy._engine import ENGINE, Fault, Queue

__all__ = [
    "Block",
    "Registry",
    "alloc_pinned_memory",
    "allocate",
    "device_view",
    "pinned_view",
]

_FRESH, _FREED, _UNPINNED = 0xFF, 0xAA, 0xAA
_ALIGN = 512


class Registry:
    """Which addresses are whose."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._starts: list[int] = []
        self._memory: dict[int, np.ndarray] = {}
        self._device: dict[int, int] = {}

    def add(self, memory: np.ndarray, device: int = 0) -> None:
        start = int(memory.ctypes.data)
        bisect.insort(self._starts, start)
        self._memory[start] = memory
        self._device[start] = device

    def remove(self, start: int) -> None:
        self._starts.remove(start)
        del self._memory[start], self._device[start]

    def view(self, pointer: int, nbytes: int, device: int | None = None) -> np.ndarray:
        """The bytes at an address, all of one block."""
        if nbytes == 0:
            return np.empty(0, np.uint8)
        place = bisect.bisect_right(self._starts, pointer) - 1
        start = self._starts[place] if place >= 0 else 0
        memory = self._memory.get(start)
        if memory is None or pointer + nbytes > start + memory.size:
            raise Fault(f"{nbytes} bytes at {pointer:#x} are not {self._what}, or no more")
        if device is not None and self._device[start] != device:
            raise Fault(f"memory of device {self._device[start]} used by one on device {device}")
        return memory[pointer - start : pointer - start + nbytes]


_DEVICE = Registry("device memory")
_PINNED = Registry("pinned memory")
device_view = _DEVICE.view
pinned_view = _PINNED.view


class Block:
    """A piece of device memory; who holds it has a right to it."""

    def __init__(self, memory: np.ndarray, queue: Queue) -> None:
        self.ptr = int(memory.ctypes.data) if memory.size else 0
        self.size = memory.size
        self.device = queue.device
        if memory.size:
            _DEVICE.add(memory, queue.device)
            weakref.finalize(self, _give_back, memory, queue, self.ptr).atexit = False


def _aligned(nbytes: int, fill: int) -> np.ndarray:
    room = np.full(nbytes + _ALIGN, fill, np.uint8)
    start = -int(room.ctypes.data) % _ALIGN
    return room[start : start + nbytes]


def allocate(nbytes: int, queue: Queue) -> tuple[Block, np.ndarray]:
    """Give memory that belongs to a stream, and the bytes of it."""
    memory = _aligned(nbytes, _FRESH)
    return Block(memory, queue), memory


def _give_back(memory: np.ndarray, queue: Queue, start: int) -> None:
    _DEVICE.remove(start)

    def poison() -> bool:
        memory[...] = _FREED
        return True

    ENGINE.submit(queue, poison)


class _Pinned:
    @property
    def ptr(self) -> int:
        return ctypes.addressof(self)  # type: ignore[arg-type]


def alloc_pinned_memory(size: int) -> Any:
    """Give pinned memory, full of what means nothing. Given back, it may be another's at once.

    Its bytes are what ``numpy.frombuffer`` shows, which keeps it alive.
    """
    raw = _aligned(size, _UNPINNED)
    kind = type("PinnedMemoryPointer", (_Pinned, ctypes.Array), {"_type_": ctypes.c_ubyte, "_length_": size})
    memory = kind.from_address(raw.ctypes.data)  # type: ignore[attr-defined]
    if size:
        _PINNED.add(raw)
        weakref.finalize(memory, _unpin, raw).atexit = False
    return memory


def _unpin(raw: np.ndarray) -> None:
    _PINNED.remove(int(raw.ctypes.data))
    raw[...] = _UNPINNED
