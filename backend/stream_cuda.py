"""CUDA's streams and events, by CuPy, which is imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.stream_protocol import Event

__all__ = ["CudaDevice", "CudaEvent", "CudaStream", "cuda_address"]


class CudaEvent:
    """A place in a stream of a CUDA device.

    Parameters
    ----------
    event : cupy.cuda.Event
    """

    __slots__ = ("_event",)

    def __init__(self, event: Any) -> None:
        self._event = event

    @property
    def done(self) -> bool:
        return bool(self._event.done)

    @property
    def handle(self) -> object:
        return self._event


class CudaStream:
    """A stream of a CUDA device.

    Parameters
    ----------
    index : int
        Of the device.
    stream : cupy.cuda.Stream
    """

    __slots__ = ("_index", "_stream")

    def __init__(self, index: int, stream: Any) -> None:
        self._index = index
        self._stream = stream

    @property
    def ptr(self) -> int:
        return int(self._stream.ptr)

    def record(self) -> CudaEvent:
        import cupy

        with cupy.cuda.Device(self._index):
            # One that keeps no time is quicker to record, and to wait for.
            event = cupy.cuda.Event(disable_timing=True)
            event.record(self._stream)
        return CudaEvent(event)

    def wait(self, event: Event) -> None:
        import cupy

        if event.handle is not None:
            with cupy.cuda.Device(self._index):
                self._stream.wait_event(event.handle)

    @contextmanager
    def active(self) -> Iterator[None]:
        import cupy

        with cupy.cuda.Device(self._index), self._stream:
            yield

    def download(self, x: Array, room: Array) -> None:
        self._copy(room.ctypes.data, cuda_address(x), x.nbytes, to_host=True)

    def upload(self, room: Array, x: Array) -> None:
        self._copy(cuda_address(x), room.ctypes.data, x.nbytes, to_host=False)

    def _copy(self, target: int, source: int, nbytes: int, to_host: bool) -> None:
        import cupy

        if nbytes:
            runtime = cupy.cuda.runtime
            kind = runtime.memcpyDeviceToHost if to_host else runtime.memcpyHostToDevice
            with cupy.cuda.Device(self._index):
                runtime.memcpyAsync(target, source, nbytes, kind, self._stream.ptr)


class CudaDevice:
    """A CUDA device, by its number in this process.

    Parameters
    ----------
    index : int
    """

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    @classmethod
    def of(cls, x: Array) -> CudaDevice:
        """Give the device that a CuPy array is on."""
        return cls(int(x.device.id))  # type: ignore[attr-defined]  # CuPy's; NumPy's stub has no id

    @property
    def identity(self) -> str:
        import cupy

        # Not the number, nor the bus alone: containers renumber both, and MIG slices share a bus.
        uuid = cupy.cuda.runtime.getDeviceProperties(self.index).get("uuid", b"")
        return f"{cupy.cuda.Device(self.index).pci_bus_id} {bytes(uuid).hex()}"

    def current(self) -> CudaStream:
        import cupy

        return CudaStream(self.index, cupy.cuda.get_current_stream(self.index))

    def stream(self) -> CudaStream:
        import cupy

        with cupy.cuda.Device(self.index):
            return CudaStream(self.index, cupy.cuda.Stream(non_blocking=True))

    def pinned(self, nbytes: int) -> Array:
        import cupy

        if not nbytes:
            return np.empty(0, np.uint8)
        room: Array = np.frombuffer(cupy.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)
        return room


def cuda_address(x: Array) -> int:
    """Give the address of a CuPy array on its device."""
    return int(x.data.ptr)  # type: ignore[attr-defined]  # CuPy's; NumPy's is a buffer
