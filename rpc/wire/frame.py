"""Frames: what goes over a connection, in bytes.

::

    head     magic, type, flags, length of kind, number of buffers, id, chain, depth,
             lengths of body and notes, length of all that follows
    kind     UTF-8
    table    for each buffer: its length, and where it is: 0 for here, else 1 + the number of a shared segment
    content  body, notes, and the buffers that are here, back to back

A frame with the flag STREAMED ends behind its table; its content follows in chunks, each a head of type CHUNK
with the key of its frame, between which other frames may go. All counts of bytes are of 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from shardwise.rpc.pickling import Parcel

__all__ = [
    "CHUNK",
    "HEAD",
    "LARGEST",
    "SEGMENT",
    "STREAMED",
    "TYPES",
    "Frame",
    "FrameError",
    "Head",
    "Type",
    "chunk_head",
    "decode_table",
    "encode",
    "stream_key",
]

HEAD = struct.Struct("<4sBBHIQQIIQQ")
"""magic, type, flags, kind, buffers, id, chain, depth, notes, body, rest."""

_MAGIC = b"SWR1"
_TABLE = struct.Struct("<QQ")

LARGEST = 1 << 18
"""Bytes behind the head of a frame that is sent in one piece; larger ones are streamed."""

_LONGEST = 1 << 30  # bytes behind any head: the table of a streamed frame may be long, nothing is this long
STREAMED = 1


class Type(IntEnum):
    """What a frame is."""

    REQUEST = 1  # wants an answer
    ANSWER = 2  # of the request with the same id
    FAILURE = 3  # of that request: the body is an exception
    CHUNK = 4  # the next bytes of a streamed frame
    SEGMENT = 5  # shared memory, whose file descriptor comes along: id is its number, body its bytes
    RELEASE = 6  # the segment with this id may be written again
    FORGET = 7  # the segment with this id is not used any more


class FrameError(Exception):
    """What came is no frame."""


@dataclass(slots=True)
class Frame:
    """One message.

    Attributes
    ----------
    type : Type
    id : int
        Of the request, unique at the worker that asks.
    kind : str
    chain, depth : int
        Which call at the top this descends from, and how far.
    parcel : Parcel
    segments : sequence of int
        For each buffer 0, or 1 + the number of the shared segment that it lies in; empty for none.
    fds : sequence of int
        File descriptors that come along.
    """

    type: Type
    id: int
    kind: str = ""
    chain: int = 0
    depth: int = 0
    parcel: Parcel = field(default_factory=lambda: Parcel(b"", b"", ()))
    segments: Sequence[int] = ()
    fds: Sequence[int] = ()


def stream_key(type: Type, id: int) -> int:
    """Give what tells the streams of one connection apart: a request and an answer may have one id."""
    return id << 1 | (type is not Type.REQUEST)


class Head(NamedTuple):
    """The fixed part of a frame."""

    magic: bytes
    type: int
    flags: int
    kind: int
    buffers: int
    id: int
    chain: int
    depth: int
    notes: int
    body: int
    rest: int

    @staticmethod
    def decode(data: bytes | bytearray | memoryview, offset: int = 0) -> Head:
        """Take apart what begins at `offset`.

        Raises
        ------
        FrameError
            If it is no head of this version.
        """
        head = Head._make(HEAD.unpack_from(data, offset))
        if head.magic != _MAGIC or head.type not in TYPES or head.rest > _LONGEST or head.flags > STREAMED:
            raise FrameError("no frame of this version")
        if head.type != CHUNK and head.kind + _TABLE.size * head.buffers > head.rest:
            raise FrameError("a frame shorter than its table")
        return head


TYPES: Mapping[int, Type] = MappingProxyType({int(each): each for each in Type})
"""By their numbers."""

CHUNK, SEGMENT = int(Type.CHUNK), int(Type.SEGMENT)  # compared often, as numbers


def encode(frame: Frame, streamed: bool = False) -> tuple[bytes, list[Any]]:
    """Give the head, kind and table of a frame, and what its content consists of."""
    parcel, kind = frame.parcel, frame.kind.encode()
    content: list[Any] = [parcel.body]
    if parcel.notes:
        content.append(parcel.notes)
    here = len(parcel.body) + len(parcel.notes)
    table = b""
    if parcel.buffers:
        where = frame.segments or (0,) * len(parcel.buffers)
        rows = []
        for buffer, segment in zip(parcel.buffers, where, strict=True):
            rows.append(_TABLE.pack(buffer.nbytes, segment))
            if not segment:
                here += buffer.nbytes
                content.append(buffer)
        table = b"".join(rows)
    rest = len(kind) + len(table) + (0 if streamed else here)
    head = HEAD.pack(
        _MAGIC,
        frame.type,
        STREAMED if streamed else 0,
        len(kind),
        len(parcel.buffers),
        frame.id,
        frame.chain,
        frame.depth,
        len(parcel.notes),
        len(parcel.body),
        rest,
    )
    return b"".join((head, kind, table)), content


def decode_table(data: memoryview, count: int) -> list[tuple[int, int]]:
    """Give the length of each buffer, and where it is."""
    return list(_TABLE.iter_unpack(data[: count * _TABLE.size]))


def chunk_head(key: int, nbytes: int) -> bytes:
    """Give what goes in front of the next bytes of a streamed frame."""
    return HEAD.pack(_MAGIC, Type.CHUNK, 0, 0, 0, key, 0, 0, 0, 0, nbytes)
