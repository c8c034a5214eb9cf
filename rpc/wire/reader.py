"""Bytes from a connection become frames; what is large is received where it is to stay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend import Array
from shardwise.rpc.pickling import Parcel
from shardwise.rpc.wire.frame import (
    CHUNK,
    HEAD,
    LARGEST,
    SEGMENT,
    STREAMED,
    TYPES,
    Frame,
    FrameError,
    Head,
    decode_table,
    stream_key,
)

__all__ = ["Reader", "aligned"]

_ALIGNED = 64  # bytes: what vector instructions like
_STAGE = LARGEST + (1 << 16)
_TABLE_ROW = 16
_MOST = 1 << 47  # bytes of a buffer: what a process can address


def aligned(nbytes: int) -> Array:
    """Give uninitialised memory whose address is a multiple of 64."""
    raw = np.empty(nbytes + _ALIGNED, np.uint8)
    begin = -raw.__array_interface__["data"][0] % _ALIGNED if nbytes else 0
    return raw[begin : begin + nbytes]


class Reader:
    """The receiving half of a connection: gives memory to receive into, and takes what came.

    Parameters
    ----------
    segment : callable
        Gives the memory of a shared segment by its number and the length wanted; raises FrameError.

    Attributes
    ----------
    fds : deque of int
        File descriptors that have come, and belong to the next segments.
    """

    def __init__(self, segment: Callable[[int, int], Any]) -> None:
        self.fds: deque[int] = deque()
        self._segment = segment
        self._stage = memoryview(bytearray(_STAGE))
        self._begin = self._end = 0
        self._streams: dict[int, _Stream] = {}
        self._into: _Stream | None = None  # the stream whose chunk is coming
        self._left = 0  # bytes of that chunk

    @property
    def target(self) -> memoryview:
        """Where the next bytes are to go."""
        if self._into is not None:
            return self._into.target(self._left)
        return self._stage[self._end :]

    def filled(self, count: int) -> list[Frame]:
        """Take note that `count` bytes have come into `target`; give the frames that are complete.

        Raises
        ------
        FrameError
            If what came is no frame; nothing can be read any more.
        """
        found: list[Frame] = []
        if self._into is not None:
            self._advance(count, found)
            return found
        self._end += count
        while self._parse(found):
            pass
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._begin > _STAGE // 2 or len(self._stage) == self._end:
            left = bytes(self._stage[self._begin : self._end])
            if len(self._stage) - len(left) < HEAD.size:
                raise FrameError("a frame longer than frames are")
            self._stage[: len(left)] = left
            self._begin, self._end = 0, len(left)
        return found

    def _parse(self, found: list[Frame]) -> bool:
        """Take one frame, or a part of a chunk, off the stage; False if there is not enough."""
        there = self._end - self._begin
        if there < HEAD.size:
            return False
        head = Head.decode(self._stage, self._begin)
        if head.type == CHUNK:
            stream = self._streams.get(head.id)
            if stream is None or not 0 < head.rest <= stream.left:
                raise FrameError("a chunk of nothing")
            self._begin += HEAD.size
            self._into, self._left = stream, head.rest
            while self._left and self._begin < self._end:
                target = stream.target(min(self._left, self._end - self._begin))
                target[:] = self._stage[self._begin : self._begin + len(target)]
                self._begin += len(target)
                self._advance(len(target), found)
            return self._into is None
        if HEAD.size + head.rest > there:
            self._make_room(HEAD.size + head.rest)
            return False
        begin = self._begin + HEAD.size
        self._begin = begin + head.rest
        rest = self._stage[begin : self._begin]
        if head.flags & STREAMED:
            self._open(head, rest, found)
        else:
            found.append(self._whole(head, rest))
        return True

    def _make_room(self, nbytes: int) -> None:
        """See that a frame fits on the stage: only the table of a streamed one may be longer."""
        if nbytes > len(self._stage):
            left = self._stage[self._begin : self._end]
            stage = memoryview(bytearray(nbytes + HEAD.size))
            stage[: len(left)] = left
            self._begin, self._end, self._stage = 0, len(left), stage

    def _whole(self, head: Head, rest: memoryview) -> Frame:
        kind, table, begin = self._outline(head, rest)
        here = head.body + head.notes + sum(nbytes for nbytes, where in table if not where)
        if head.type != SEGMENT and begin + here != len(rest):
            raise FrameError("a frame of another length than its parts")
        if head.type == SEGMENT:
            if not self.fds:
                raise FrameError("a segment without a file")
            return Frame(TYPES[head.type], head.id, depth=head.depth, fds=(self.fds.popleft(),))
        body = bytes(rest[begin : begin + head.body])
        begin += head.body
        notes = bytes(rest[begin : begin + head.notes])
        begin += head.notes
        buffers = []
        for nbytes, where in table:
            if where:
                buffers.append(self._segment(where - 1, nbytes))
                continue
            memory = aligned(nbytes)
            memory[:] = np.frombuffer(rest, np.uint8, nbytes, begin)
            begin += nbytes
            buffers.append(memory.data)
        return Frame(TYPES[head.type], head.id, kind, head.chain, head.depth, Parcel(body, notes, buffers))

    def _open(self, head: Head, rest: memoryview, found: list[Frame]) -> None:
        """Begin to receive a streamed frame."""
        kind, table, begin = self._outline(head, rest)
        key = stream_key(TYPES[head.type], head.id)
        if begin != len(rest) or key in self._streams:
            raise FrameError("a stream that cannot begin")
        body, notes = bytearray(head.body), bytearray(head.notes)
        buffers, targets = [], [memoryview(body), memoryview(notes)]
        for nbytes, where in table:
            if where:
                buffers.append(self._segment(where - 1, nbytes))
                continue
            buffers.append(aligned(nbytes).data)
            targets.append(buffers[-1])
        frame = Frame(TYPES[head.type], head.id, kind, head.chain, head.depth, Parcel(body, notes, buffers))
        stream = _Stream(key, frame, [each for each in targets if len(each)])
        if not stream.left:
            found.append(frame)
            return
        self._streams[key] = stream

    def _outline(self, head: Head, rest: memoryview) -> tuple[str, Sequence[tuple[int, int]], int]:
        begin = head.kind
        try:
            kind = str(rest[:begin], "utf-8") if begin else ""
        except UnicodeDecodeError as error:
            raise FrameError("a kind that is no text") from error
        if not head.buffers:
            return kind, (), begin
        table = decode_table(rest[begin:], head.buffers)
        if max(nbytes for nbytes, _ in table) > _MOST or head.body > _MOST:
            raise FrameError("a buffer longer than memory is")
        return kind, table, begin + head.buffers * _TABLE_ROW

    def _advance(self, count: int, found: list[Frame]) -> None:
        """Take note of `count` bytes of the chunk that is coming."""
        stream = self._into
        if stream is None:
            return
        self._left -= count
        stream.advance(count)
        if not stream.left:
            del self._streams[stream.key]
            found.append(stream.frame)
        if not self._left:
            self._into = None


class _Stream:
    """A frame whose content is coming in chunks."""

    def __init__(self, key: int, frame: Frame, targets: Sequence[memoryview]) -> None:
        self.key = key
        self.frame = frame
        self.left = sum(len(each) for each in targets)
        self._targets = deque(targets)
        self._done = 0  # bytes of the first target

    def target(self, most: int) -> memoryview:
        return self._targets[0][self._done : self._done + most]

    def advance(self, count: int) -> None:
        self.left -= count
        self._done += count
        if self._done == len(self._targets[0]):
            self._targets.popleft()
            self._done = 0
