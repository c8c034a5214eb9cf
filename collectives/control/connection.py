"""One socket to another rank, in the loop: first the handshake, then frames both ways."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from shardwise.collectives.control.frame import FDS, Frame, FrameError, FrameReader
from shardwise.collectives.control.handshake import PATIENCE, Handshake, HandshakeError
from shardwise.collectives.control.loop import READ, WRITE, Loop

__all__ = ["Connection", "Owner", "harden", "is_own_user"]

_ANCILLARY = socket.CMSG_SPACE(FDS * array.array("i").itemsize)
_TURN = 64  # frames that one connection may bring before others get their turn
_KEEPALIVE_IDLE, _KEEPALIVE_BETWEEN = 3, 3


class Owner(Protocol):
    """Who is told what becomes of a connection, on the thread of the loop."""

    def opened(self, connection: Connection) -> None:
        """Both sides have proved themselves; frames may be sent."""

    def arrived(self, connection: Connection, frame: Frame) -> None:
        """A frame has come."""

    def ended(self, connection: Connection, reason: str) -> None:
        """Nothing more will come; the socket is closed. `connection.hung_up` says by whom."""


class Connection:
    """A connected, or connecting, stream socket.

    Parameters
    ----------
    loop : Loop
    source : socket.socket
        The connection owns it.
    handshake : Handshake
    owner : Owner
    connecting : bool
        Whether the kernel has not connected it yet.

    Attributes
    ----------
    is_open : bool
        Whether both sides have proved themselves.
    peer : str
        The name that the other side has proved; empty before.
    may_be_open_there : bool
        Whether the other side may take both to have proved themselves already.
    hung_up : bool
        Whether it ended since the other side, or its process, closed it.
    """

    def __init__(
        self,
        loop: Loop,
        source: socket.socket,
        handshake: Handshake,
        owner: Owner,
        *,
        connecting: bool = False,
    ) -> None:
        self.is_open = False
        self.peer = ""
        self.hung_up = False
        self._loop = loop
        self._socket = source
        self._handshake = handshake
        self._owner = owner
        self._connecting = connecting
        self._closed = False
        self._hanging_up = False
        self._proof = bytearray()
        self._reader = FrameReader()
        self._is_local = source.family == socket.AF_UNIX
        self._out: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._events = 0
        source.setblocking(False)
        self._queue(handshake.begin())
        self._listen()
        loop.call_later(PATIENCE if not connecting else 3 * PATIENCE, self._expire)

    def send(self, data: Sequence[bytes | bytearray | memoryview], fds: Sequence[int] = ()) -> None:
        """Queue pieces of one frame, and send what the kernel takes now. `fds` are closed once sent."""
        before = len(self._out)
        for piece in data:
            view = memoryview(piece).cast("B")
            if len(view):
                self._out.append((view, fds))
                fds = ()
        if not before and not self._connecting:
            self._guarded(self._write)

    @property
    def is_drained(self) -> bool:
        """Whether all that was queued will arrive, even if this process ends now.

        A local socket has it at the other side at once. TCP drops what the other host has not confirmed, if
        the process ends before it has read what came.
        """
        return not self._out and (self._is_local or self._closed or not _unconfirmed(self._socket))

    @property
    def may_be_open_there(self) -> bool:
        return self._handshake.has_proved

    def close(self) -> None:
        """Close the socket, without a word to the owner."""
        if not self._closed:
            self._closed = True
            self._loop.ignore(self._socket)
            self._socket.close()
            self.abandon()

    def abandon(self) -> None:
        """Close what a fork has inherited, without touching what the rank itself still uses."""
        self._closed = True
        self._socket.close()
        self._reader.close()
        for _, fds in self._out:
            for fd in fds:
                os.close(fd)
        self._out.clear()

    def _queue(self, data: bytes) -> None:
        if data:
            self._out.append((memoryview(data), ()))

    def _listen(self) -> None:
        wanted = WRITE if self._connecting else READ | (WRITE if self._out else 0)
        if not self._closed and wanted != self._events:
            self._events = wanted
            self._loop.watch(self._socket, wanted, self._happened)

    def _happened(self, events: int) -> None:
        if self._closed:
            return  # by what happened elsewhere at the same moment
        if self._connecting:
            error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                self._end(os.strerror(error))
                return
            self._connecting = False
        if events & READ:
            self._guarded(self._read)
        if not self._closed and self._out:
            self._guarded(self._write)
        self._listen()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BlockingIOError:
            pass
        except (HandshakeError, FrameError) as error:
            self._end(str(error))
        except OSError as error:
            if self._hanging_up:
                return  # an answer to its last words, which are still being read
            self._hear_out()
            self.hung_up = error.errno in (errno.ECONNRESET, errno.EPIPE)
            self._end(error.strerror or str(error))
        self._listen()

    def _hear_out(self) -> None:
        """Read what the other side has said before it hung up: that it leaves, perhaps."""
        self._hanging_up = True
        # Since Linux 6.18 a local socket tells of a reset once, before what had come in by then.
        for _ in range(2 if self.is_open else 0):
            with contextlib.suppress(OSError, FrameError):
                while not self._closed:
                    self._read()

    def _write(self) -> None:
        while self._out:
            view, fds = self._out[0]
            if fds:
                packed = array.array("i", fds)
                sent = self._socket.sendmsg([view], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])
                for fd in fds:
                    os.close(fd)
            else:
                sent = self._socket.send(view)
            if sent < len(view):
                self._out[0] = (view[sent:], ())
                return
            self._out.popleft()

    def _read(self) -> None:
        if not self.is_open:
            self._shake()
        for _ in range(_TURN if self.is_open else 0):
            target = self._reader.target
            fds: array.array[int] = array.array("i")
            if self._is_local:
                count, ancillary, _, _ = self._socket.recvmsg_into([target], _ANCILLARY)
                for level, kind, data in ancillary:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                        fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
            else:
                count = self._socket.recv_into(target)
            target.release()
            if not count:
                self.hung_up = True
                self._end("")
                return
            frame = self._reader.filled(count, fds)
            if frame is not None:
                self._owner.arrived(self, frame)
                if self._closed:
                    return

    def _shake(self) -> None:
        while self._handshake.wanted:
            data = self._socket.recv(self._handshake.wanted - len(self._proof))
            if not data:
                self.hung_up = True
                self._end("")
                return
            self._proof += data
            if len(self._proof) == self._handshake.wanted:
                self._queue(self._handshake.receive(bytes(self._proof)))
                self._proof.clear()
        with contextlib.suppress(OSError):
            self._write()  # even if the owner hangs up at once: so it is known that no proof was wanting
        self.is_open = True
        self.peer = self._handshake.peer
        self._owner.opened(self)

    def _expire(self) -> None:
        if not self.is_open and not self._closed:
            self._end("no proof in time")

    def _end(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self._owner.ended(self, reason)


def harden(connection: socket.socket, dead_after: float) -> None:
    """Send at once, and have the kernel give up a host that does not answer for `dead_after` seconds."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        probes = max(1, int(dead_after / _KEEPALIVE_BETWEEN) - 1)
        for option, value in (
            (socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE),
            (socket.TCP_KEEPINTVL, _KEEPALIVE_BETWEEN),
            (socket.TCP_KEEPCNT, probes),
            (socket.TCP_USER_TIMEOUT, max(1, int(1000 * dead_after))),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _unconfirmed(connection: socket.socket) -> int:
    """Give the bytes that were sent and that the other host has not confirmed; 0 where nobody can tell."""
    if sys.platform != "linux":
        return 0
    (count,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0)))
    return int(count)


def is_own_user(connection: socket.socket) -> bool:
    """Say whether the other end of a local socket is a process of this user; True where nobody can tell."""
    if connection.family != socket.AF_UNIX or sys.platform != "linux":
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())
