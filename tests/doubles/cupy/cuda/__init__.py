"""Devices, streams, events and memory."""

from cupy._memory import alloc_pinned_memory
from cupy._stream import Device, Event, Stream, get_current_stream
from cupy.cuda import nccl, runtime

__all__ = [
    "Device",
    "Event",
    "Stream",
    "alloc_pinned_memory",
    "get_current_stream",
    "nccl",
    "runtime",
]
