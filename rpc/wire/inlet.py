"""A connection that another worker has dialled: frames come in on it, once it has proved itself."""

from __future__ import annotations

import array
import os
import socket
from typing import Protocol

from shardwise.collectives.control.handshake import PATIENCE, Handshake, HandshakeError
from shardwise.collectives.control.loop import READ, WRITE, Loop
from shardwise.rpc.wire.frame import Frame, FrameError
from shardwise.rpc.wire.reader import Reader

__all__ = ["LARGE_PATH", "Inlet", "Owner"]

LARGE_PATH = "large"
"""How the names of connections for large frames end: those on which segments come."""

_ANCILLARY = socket.CMSG_SPACE(16 * array.array("i").itemsize)
_TURN = 16  # times that one connection is read before others get their turn


class Owner(Protocol):
    """Who is told what becomes of an inlet, on the thread of the loop."""

    def inlet_opened(self, inlet: Inlet) -> bool:
        """The other side has proved that it is `inlet.name`; False to hang up."""

    def inlet_arrived(self, inlet: Inlet, frame: Frame) -> None:
        """A frame has come."""

    def inlet_ended(self, inlet: Inlet, reason: str) -> None:
        """Nothing more will come; the socket is closed."""

    def inlet_segment(self, inlet: Inlet, number: int, nbytes: int) -> memoryview:
        """Give the memory of a shared segment, or raise FrameError."""


class Inlet:
    """Reads what one worker sends. Until it has proved itself, no more than a few hundred bytes are read.

    Parameters
    ----------
    loop : Loop
    source : socket.socket
        Accepted; the inlet owns it.
    handshake : Handshake
    owner : Owner

    Attributes
    ----------
    proved : bool
    name : str
        What the other side is called; to be believed once it has proved itself.
    """

    def __init__(self, loop: Loop, source: socket.socket, handshake: Handshake, owner: Owner) -> None:
        self.proved = False
        self.name = ""
        self._loop = loop
        self._socket = source
        self._handshake = handshake
        self._owner = owner
        self._heard = bytearray()
        self._words = b""
        self._closed = False
        self._is_local = source.family == socket.AF_UNIX
        self._takes_fds = False
        self._reader = Reader(lambda number, nbytes: owner.inlet_segment(self, number, nbytes))
        source.setblocking(False)
        loop.watch(source, READ, self._happened)
        loop.call_later(PATIENCE, self._expire)

    def close(self) -> None:
        """Close the socket, without a word to the owner."""
        if not self._closed:
            self._closed = True
            self._loop.ignore(self._socket)
            self._socket.close()
            while self._reader.fds:
                os.close(self._reader.fds.popleft())

    def abandon(self) -> None:
        """Close what a fork has inherited, without touching what the worker itself still uses."""
        self._closed = True
        self._socket.close()

    def _happened(self, events: int) -> None:
        if self._closed:
            return
        try:
            if self._words:
                self._speak(b"")
            if not self.proved:
                self._shake()
            for _ in range(_TURN if self.proved else 0):
                if self._closed or not self._read():
                    return
        except BlockingIOError:
            pass
        except (HandshakeError, FrameError) as error:
            self._end(str(error))
        except OSError as error:
            self._hear_out()
            self._end(error.strerror or str(error))

    def _read(self) -> bool:
        """Read once; False if there is certainly no more, and asking would cost a system call."""
        reader = self._reader
        target = reader.target
        if self._takes_fds:
            count, ancillary, _, _ = self._socket.recvmsg_into([target], _ANCILLARY)
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds: array.array[int] = array.array("i")
                    fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                    reader.fds.extend(fds)
        else:
            count = self._socket.recv_into(target)
        if not count:
            self._end("")
            return False
        for frame in reader.filled(count):
            self._owner.inlet_arrived(self, frame)
        return count == len(target)

    def _hear_out(self) -> None:
        """Read what the other side had sent before the connection was reset."""
        # Since Linux 6.18 a local socket tells of a reset once, before what had come in by then.
        for _ in range(2 if self.proved else 0):
            try:
                while not self._closed:
                    self._read()  # until the kernel says that there is no more
            except (OSError, FrameError):
                continue

    def _shake(self) -> None:
        handshake = self._handshake
        while handshake.wanted:
            data = self._socket.recv(handshake.wanted - len(self._heard))
            if not data:
                raise HandshakeError("it hung up")
            self._heard += data
            if len(self._heard) == handshake.wanted:
                answer = handshake.receive(bytes(self._heard))
                self._heard.clear()
                self._speak(answer)
        self.proved, self.name = True, handshake.peer
        self._takes_fds = self._is_local and self.name.endswith(LARGE_PATH)
        if not self._owner.inlet_opened(self):
            self.close()

    def _speak(self, words: bytes) -> None:
        self._words += words
        try:
            self._words = self._words[self._socket.send(self._words) :]
        finally:
            if not self._closed:
                self._loop.watch(self._socket, READ | (WRITE if self._words else 0), self._happened)

    def _expire(self) -> None:
        if not self.proved and not self._closed:
            self._end("no proof in time")

    def _end(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self._owner.inlet_ended(self, reason)
