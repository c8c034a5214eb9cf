"""What a stream, an event and a device with streams are, whatever they stand for; see `stream.py`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from shardwise.backend.array import Array

__all__ = ["Device", "Event", "Stream"]


class Event(Protocol):
    """A place in a stream."""

    @property
    def done(self) -> bool:
        """Whether the stream has come there. Does not wait."""

    @property
    def handle(self) -> object:
        """What the library that made it calls it; None on the CPU."""


class Stream(Protocol):
    """A queue of work on one device."""

    @property
    def ptr(self) -> int:
        """The handle that libraries take."""

    def record(self) -> Event:
        """Mark the place behind all work that was given to the stream so far."""

    def wait(self, event: Event) -> None:
        """Do what comes next after `event`. The host does not wait."""

    def active(self) -> AbstractContextManager[object]:
        """Give the work of a ``with`` block (of this thread) to this stream, and take its memory for it."""

    def download(self, x: Array, room: Array) -> None:
        """Copy contiguous `x` into pinned `room` of the same bytes, which is good once that is done."""

    def upload(self, room: Array, x: Array) -> None:
        """Copy pinned `room` into contiguous `x`; `room` must stay as it is until that is done."""


class Device(Protocol):
    """Where arrays live and work is done."""

    @property
    def identity(self) -> str:
        """What tells it from all others, also those of other hosts and other processes' numbering."""

    def current(self) -> Stream:
        """The stream that this thread gives its work to."""

    def stream(self) -> Stream:
        """Make a stream that is in step with no other."""

    def pinned(self, nbytes: int) -> Array:
        """Bytes of the host that copies to and from the device are quick with, and need no waiting."""
