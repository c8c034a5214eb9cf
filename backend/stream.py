"""Streams and events: the order of work on a device, without the host waiting for it.

Work is given to a stream and done in that order, later. An `Event` is a place in one stream; another stream
that waits for it does nothing more until the first has come there. The host goes on meanwhile. Here is what
the layers above see of it, and the CPU's: there everything is done at once. CUDA's is in `stream_cuda.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.stream_cuda import CudaDevice, cuda_address
from shardwise.backend.stream_protocol import Device, Event

__all__ = ["HOST", "HostDevice", "address", "stream_device"]


class _Done:
    """The event of what is done at once."""

    done = True
    handle = None


class _HostStream:
    """The order of work on the CPU, which is done when it is given."""

    ptr = 0

    def record(self) -> _Done:
        return _Done()

    def wait(self, event: Event) -> None:
        """Nothing is left to wait for."""

    def active(self) -> AbstractContextManager[None]:
        return nullcontext()

    def download(self, x: Array, room: Array) -> None:
        np.copyto(room, x)

    def upload(self, room: Array, x: Array) -> None:
        np.copyto(x, room)


class HostDevice:
    """The CPU."""

    identity = "cpu"

    def current(self) -> _HostStream:
        return _HostStream()

    def stream(self) -> _HostStream:
        return _HostStream()

    def pinned(self, nbytes: int) -> Array:
        return np.empty(nbytes, np.uint8)


HOST = HostDevice()


def stream_device(x: object) -> Device:
    """Give the device of an array, with its streams.

    Parameters
    ----------
    x : array
        CuPy's, or of any other kind: the CPU's.
    """
    return CudaDevice.of(x) if is_cuda_array(x) else HOST


def address(x: Array) -> int:
    """Give the address of the memory of an array: of its first element, unless it is empty."""
    return cuda_address(x) if is_cuda_array(x) else x.ctypes.data
