"""A connection that this worker has dialled: frames go out on it, and nothing comes in."""

from __future__ import annotations

import array
import os
import socket
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from shardwise.collectives.control.handshake import Handshake, HandshakeError
from shardwise.collectives.control.loop import READ, WRITE, Loop
from shardwise.rpc.wire.frame import LARGEST, Frame, chunk_head, encode, stream_key

__all__ = ["Outlet"]

_CHUNK = 1 << 20  # bytes of one large message, before others get their turn
_JOINED = 1 << 13  # bytes that are copied together rather than handed over piece by piece
_PIECES = 512  # buffers for one system call, of 1024 that Linux takes


class Sink(Protocol):
    """Who is told what becomes of an outlet, on the thread of the loop."""

    def outlet_ended(self, outlet: Outlet, reason: str) -> None:
        """The socket is closed; `outlet.proved` says whether there was a connection at all."""


class Outlet:
    """Sends frames to one worker, on the thread that asks where the kernel takes them at once.

    Parameters
    ----------
    loop : Loop
    peer : int
        Id of the worker at the other end.
    sink : Sink

    Attributes
    ----------
    proved : bool
        Whether both sides have proved themselves.
    """

    def __init__(self, loop: Loop, peer: int, sink: Sink) -> None:
        self.peer = peer
        self.proved = False
        self._loop = loop
        self._sink = sink
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._handshake: Handshake | None = None
        self._heard = bytearray()
        self._words: deque[memoryview] = deque()  # of the handshake
        self._out: deque[tuple[Any, Sequence[int]]] = deque()
        self._streams: deque[_Stream] = deque()
        self._closed = False
        self._watched = 0

    def send(self, frame: Frame) -> None:
        """Send a frame, or queue it. From any thread; never waits."""
        head, content = encode(frame)
        size = len(head) + sum(each.nbytes if isinstance(each, memoryview) else len(each) for each in content)
        if size > LARGEST:
            self._stream(frame, content)
            return
        pieces = [b"".join((head, *content))] if size <= _JOINED else [head, *content]
        with self._lock:
            if self._closed:
                return
            idle = self.proved and not self._out and not self._streams
            if idle and not frame.fds and len(pieces) <= _PIECES:
                pieces = self._write_now(pieces)
                if not pieces:
                    return
            fds: Sequence[int] = [os.dup(fd) for fd in frame.fds]
            for piece in pieces:
                self._out.append((memoryview(piece), fds))
                fds = ()
            if idle and frame.fds:
                with suppress(OSError):  # the loop meets it again
                    self._flush()
        self._loop.call_soon(self._watch)

    @property
    def is_idle(self) -> bool:
        """Whether the kernel has taken all that was sent."""
        return not self._out and not self._streams

    def connect(self, source: socket.socket, handshake: Handshake, connecting: bool) -> None:
        """Take a socket that was dialled. On the thread of the loop."""
        self._socket, self._handshake = source, handshake
        source.setblocking(False)
        self._words.append(memoryview(handshake.begin()))
        self._connecting = connecting
        self._watch()

    def close(self) -> None:
        """Close the socket, without a word to anybody. On the thread of the loop, or once it has ended."""
        with self._lock:
            self._closed = True
            for _, fds in self._out:
                for fd in fds:
                    os.close(fd)
            self._out.clear()
            self._streams.clear()
            if self._socket is not None:
                self._loop.ignore(self._socket)
                self._socket.close()

    def abandon(self) -> None:
        """Close what a fork has inherited; takes no lock, since a thread that is not there may hold it."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    def _stream(self, frame: Frame, content: Sequence[Any]) -> None:
        head, _ = encode(frame, streamed=True)
        with self._lock:
            if self._closed:
                return
            self._out.append((memoryview(head), ()))
            self._streams.append(_Stream(stream_key(frame.type, frame.id), content))
        self._loop.call_soon(self._watch)

    def _write_now(self, pieces: list[Any]) -> list[Any]:
        """Give the kernel what it takes at once; gives what is left."""
        try:
            if len(pieces) == 1:
                sent = self._socket.send(pieces[0])  # type: ignore[union-attr]
            else:
                sent = self._socket.sendmsg(pieces)  # type: ignore[union-attr]
        except BlockingIOError:
            return pieces
        except OSError:
            return pieces  # the loop meets it again, and tells
        return _rest(pieces, sent)

    def _watch(self) -> None:
        """Have the loop wait for what there is to wait for: also the end of a connection that is idle."""
        if self._closed or self._socket is None:
            return
        pending = self._connecting or self._words or (self.proved and not self.is_idle)
        wanted = READ | (WRITE if pending else 0)
        if wanted != self._watched:
            self._watched = wanted
            self._loop.watch(self._socket, wanted, self._happened)

    def _happened(self, events: int) -> None:
        source = self._socket
        if self._closed or source is None:
            return
        try:
            if self._connecting:
                error = source.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                self._connecting = False
            if events & READ:
                self._hear(source)
            while self._words:
                sent = source.send(self._words[0])
                self._words[0] = self._words[0][sent:]
                if not len(self._words[0]):
                    self._words.popleft()
            if self.proved and not self._closed:
                with self._lock:
                    self._flush()
        except BlockingIOError:
            pass
        except HandshakeError:
            self._end("it did not prove that it belongs to this job")
            return
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        self._watch()

    def _hear(self, source: socket.socket) -> None:
        """Shake hands; behind that nothing comes but the end."""
        handshake = self._handshake
        while handshake is not None and handshake.wanted:
            data = source.recv(handshake.wanted - len(self._heard))
            if not data:
                raise OSError("it hung up")
            self._heard += data
            if len(self._heard) == handshake.wanted:
                answer = handshake.receive(bytes(self._heard))
                self._heard.clear()
                if answer:
                    self._words.append(memoryview(answer))
        if not self.proved:
            self.proved = True
            return
        if source.recv(1):
            raise OSError("it sent what nobody asked for")
        self._end("")

    def _flush(self) -> None:
        """Write until the kernel takes no more: whole frames first, then the large ones in turns."""
        source = self._socket
        if source is None:
            return
        while True:
            while self._out:
                piece, fds = self._out[0]
                if fds:
                    packed = array.array("i", fds)
                    sent = source.sendmsg([piece], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
                    for fd in fds:
                        os.close(fd)
                else:
                    sent = source.send(piece)
                if sent < len(piece):
                    self._out[0] = (piece[sent:], ())
                else:
                    self._out.popleft()
            if not self._streams:
                return
            stream = self._streams.popleft()
            self._out.extend((piece, ()) for piece in stream.chunk(_CHUNK))
            if stream.left:
                self._streams.append(stream)

    def _end(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self._sink.outlet_ended(self, reason)


class _Stream:
    """What is left of the content of a large frame."""

    def __init__(self, key: int, content: Sequence[Any]) -> None:
        self._key = key
        self._content = deque(view for each in content if len(view := memoryview(each).cast("B")))
        self.left = sum(len(each) for each in self._content)

    def chunk(self, nbytes: int) -> list[Any]:
        """Give the next bytes, at most `nbytes` and `_PIECES` buffers of them, behind their head."""
        pieces: list[Any] = []
        count = 0
        while self._content and count < nbytes and len(pieces) < _PIECES:
            piece = self._content[0][: nbytes - count]
            pieces.append(piece)
            count += len(piece)
            if len(piece) == len(self._content[0]):
                self._content.popleft()
            else:
                self._content[0] = self._content[0][len(piece) :]
        self.left -= count
        return [chunk_head(self._key, count), *pieces]


def _rest(pieces: list[Any], sent: int) -> list[Any]:
    """Give what is left of `pieces` behind the first `sent` bytes."""
    left = []
    for piece in pieces:
        view = memoryview(piece).cast("B")
        if sent >= len(view):
            sent -= len(view)
        else:
            left.append(view[sent:])
            sent = 0
    return left
