"""As much of CUDA's runtime as is called."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from cupy._engine import ENGINE, Fault
from cupy._memory import device_view, pinned_view
from cupy._stream import Device, count_devices, queue_of

__all__ = [
    "CUDARuntimeError",
    "getDevice",
    "getDeviceCount",
    "getDeviceProperties",
    "memcpyAsync",
    "memcpyDeviceToHost",
    "memcpyHostToDevice",
    "runtimeGetVersion",
]

memcpyHostToDevice = 1
memcpyDeviceToHost = 2


class CUDARuntimeError(RuntimeError):
    """What the driver complains of."""


def getDeviceCount() -> int:
    return count_devices()


def getDevice() -> int:
    return Device().id


def runtimeGetVersion() -> int:
    return 12090


def getDeviceProperties(device: int) -> dict[str, Any]:
    uuid = hashlib.sha256(f"double {device}".encode()).digest()[:16]
    return {"name": b"Double", "uuid": uuid, "major": 9, "minor": 0}


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """Copy between the device and pinned memory, when the stream comes to it."""
    queue = queue_of(stream)
    if kind == memcpyHostToDevice:
        target, source = device_view(dst, size, queue.device), pinned_view(src, size)
    elif kind == memcpyDeviceToHost:
        target, source = pinned_view(dst, size), device_view(src, size, queue.device)
    else:
        raise Fault(f"the double has no copy of kind {kind}")

    def copy() -> bool:
        np.copyto(target, source)
        return True

    ENGINE.submit(queue, copy)
