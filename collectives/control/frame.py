"""What travels on a control connection once both sides have proved themselves: frames, without any pickle.

::

    "SWF1" | file descriptors u32 | header bytes u32 | data bytes u64 | header, JSON | data, raw

File descriptors (inside a host) come with the first byte of their frame.
"""

from __future__ import annotations

import json
import os
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["FDS", "JSON", "Frame", "FrameError", "FrameReader", "encode"]

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
"""What a frame can say: JSON's values. Tuples arrive as lists."""

FDS = 200
"""File descriptors that one frame may carry; the kernel takes 253."""

_MAGIC = b"SWF1"
_PREFIX = struct.Struct("!4sIIQ")
_LONGEST_HEADER = 1 << 26
_MOST_DATA = 1 << 40


class FrameError(Exception):
    """Bytes that are no frame: the connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message on a connection.

    Attributes
    ----------
    kind : str
        Who is to handle it.
    body : dict
        JSON values.
    token : int
        Not 0 for a question (positive) and for the answer to it (the same, negative).
    data : bytearray
    fds : tuple of int
        File descriptors that now belong to who handles it.
    """

    kind: str
    body: Mapping[str, JSON]
    token: int
    data: bytearray
    fds: tuple[int, ...]


def encode(kind: str, body: Mapping[str, JSON], token: int, nbytes: int, fds: int) -> bytes:
    """Give what stands before the data of a frame.

    Raises
    ------
    TypeError, ValueError
        If the body is no JSON, or there is too much of something.
    """
    header = json.dumps([kind, token, body], separators=(",", ":"), allow_nan=False).encode()
    if len(header) > _LONGEST_HEADER or nbytes > _MOST_DATA or fds > FDS:
        raise ValueError(
            f"too much for one message: a body of {len(header)} bytes, {nbytes} of data, {fds} fds"
        )
    return _PREFIX.pack(_MAGIC, fds, len(header), nbytes) + header


class FrameReader:
    """Makes frames of a stream of bytes, without copying the data.

    `target` is the memory to read into; `filled` is told how much has come.
    """

    def __init__(self) -> None:
        self._fds: deque[int] = deque()
        self._part = bytearray(_PREFIX.size)  # of the stage: prefix, header, data
        self._have = 0
        self._stage = 0
        self._wanted_fds = self._nbytes = self._token = 0
        self._kind = ""
        self._body: Mapping[str, JSON] = {}

    @property
    def target(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return memoryview(self._part)[self._have :]

    def filled(self, nbytes: int, fds: Sequence[int]) -> Frame | None:
        """Take note of bytes that were read into `target`; gives the frame that they complete.

        Raises
        ------
        FrameError
            If this is no frame.
        """
        self._fds.extend(fds)
        self._have += nbytes
        while self._have == len(self._part):
            if self._stage == 0:
                magic, self._wanted_fds, header, data = _PREFIX.unpack(self._part)
                if magic != _MAGIC or header > _LONGEST_HEADER or data > _MOST_DATA or self._wanted_fds > FDS:
                    raise FrameError(f"a frame begins with {bytes(self._part)!r}")
                self._nbytes, self._part = data, bytearray(header)
            elif self._stage == 1:
                self._kind, self._token, self._body = _parsed(self._part)
                try:
                    self._part = bytearray(self._nbytes)
                except MemoryError as error:
                    raise FrameError(f"a frame of {self._nbytes} bytes") from error
            else:
                if len(self._fds) < self._wanted_fds:
                    raise FrameError("file descriptors got lost; is `ulimit -n` too low?")
                taken = tuple(self._fds.popleft() for _ in range(self._wanted_fds))
                frame = Frame(self._kind, self._body, self._token, self._part, taken)
                self._restart()
                return frame
            self._stage += 1
            self._have = 0
        return None

    def close(self) -> None:
        """Close file descriptors whose frame has not come."""
        while self._fds:
            os.close(self._fds.popleft())

    def _restart(self) -> None:
        self._part = bytearray(_PREFIX.size)
        self._have = 0
        self._stage = 0


def _parsed(header: bytearray) -> tuple[str, int, Mapping[str, JSON]]:
    try:
        match json.loads(header):
            case [str(kind), int(token), dict(body)]:
                return kind, token, body
    except (ValueError, RecursionError) as error:
        raise FrameError("a header that is no JSON") from error
    raise FrameError("a header of another form")
