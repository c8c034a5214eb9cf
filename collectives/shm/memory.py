"""Memory that several processes of a host map: made by one, handed to the others as a file that has no name.

The pages are there when `create` returns, so that a full machine is an error there and not a signal later. A
mapping goes with the last array over it, on each process for itself; the memory goes with the last mapping.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable

import numpy as np

from shardwise.backend.array import Array

__all__ = ["Mapping", "create", "open_of"]

_FOLDER = "/dev/shm"
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """A file's memory in this process.

    Parameters
    ----------
    descriptor : int
        Of the file; it may be closed at once.
    nbytes : int

    Attributes
    ----------
    address : int
    nbytes : int

    Raises
    ------
    OSError
        If it cannot be mapped.
    """

    def __init__(self, descriptor: int, nbytes: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        # Not by the module mmap, which keeps a descriptor for every mapping: ranks times groups of them.
        place = libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if place is None or place == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, f"mapping {nbytes} bytes of shared memory: {os.strerror(error)}")
        self.address: int = place
        self.nbytes = nbytes
        self._memory = (ctypes.c_uint8 * nbytes).from_address(place)
        # Called when neither this nor an array over it is left; not at exit, when threads may still compute.
        weakref.finalize(self._memory, libc.munmap, place, nbytes).atexit = False

    def bytes(self) -> Array:
        """Give the memory as an array, which keeps it alive."""
        return np.frombuffer(memoryview(self._memory), np.uint8)

    def when_released(self, call: Callable[[], None]) -> None:
        """Have `call` called just before the memory is unmapped, when no array over it is left."""
        weakref.finalize(self._memory, call).atexit = False


def create(nbytes: int) -> int:
    """Give the descriptor of a file without a name whose `nbytes` of memory are there.

    Raises
    ------
    OSError
        If the machine does not have them.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("shardwise", os.MFD_CLOEXEC)
    else:
        descriptor, path = tempfile.mkstemp(prefix="shardwise-", dir=_FOLDER)
        os.unlink(path)
    try:
        os.posix_fallocate(descriptor, 0, nbytes)
    except OSError as error:
        os.close(descriptor)
        raise OSError(
            error.errno, f"reserving {nbytes} bytes of shared memory: {os.strerror(error.errno or 0)}"
        ) from error
    return descriptor


def open_of(pid: int, descriptor: int) -> int:
    """Give a descriptor of the file that another process has open under `descriptor`.

    Raises
    ------
    OSError
        If the system does not let this process.
    """
    return os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
