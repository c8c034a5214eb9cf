"""The connections of one rank to all others: made when first needed, kept until the end."""

from __future__ import annotations

import errno
import os
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from shardwise.collectives.control.connection import Connection, harden, is_own_user
from shardwise.collectives.control.frame import Frame
from shardwise.collectives.control.handshake import Handshake
from shardwise.collectives.control.loop import READ, Loop
from shardwise.collectives.control.member import Member

__all__ = ["Links", "Listener"]

_STRANGERS = 256  # connections that have not proved themselves; the oldest goes when there are more
_ACCEPTED = 64  # at once, before the others get their turn
_BREATH = 0.1  # seconds to wait when there are no file descriptors left
_FIRST_RETRY, _LAST_RETRY = 0.01, 0.5
_DIALLING = 30.0  # seconds in which a rank must be reached
_REFUSED = 1.0  # where nobody listens any more: everyone did before anyone dialled


class Listener(Protocol):
    """Who is told what comes from other ranks, on the thread of the loop."""

    def arrived(self, src: int, frame: Frame) -> None:
        """A frame has come from rank `src`, which has proved itself."""

    def reached(self, rank: int) -> None:
        """There is a connection with `rank` now."""

    def lost(self, rank: int, reason: str) -> None:
        """A connection with `rank` has ended, or could not be made."""


@dataclass(slots=True)
class _Link:
    """What there is between this rank and another."""

    sending: Connection | None = None  # always the same, so that what is sent keeps its order
    dialled: Connection | None = None  # on its way
    others: list[Connection] = field(default_factory=list)  # both dialled at once
    waiting: list[tuple[Sequence[bytes | bytearray | memoryview], Sequence[int]]] = field(
        default_factory=list
    )
    since: float = 0.0  # when dialling began
    tries: int = 0
    gone: bool = False
    over: bool = False  # but for what is dialled


class Links:
    """All connections of one rank.

    Parameters
    ----------
    loop : Loop
    rank : int
    members : sequence of Member
        Of all ranks.
    key : bytes
    sockets : sequence of socket.socket
        They listen; the links own them.
    dead_after : float
        Seconds after which a host that does not answer is given up by the kernel.
    listener : Listener
    """

    def __init__(
        self,
        loop: Loop,
        rank: int,
        members: Sequence[Member],
        key: bytes,
        sockets: Sequence[socket.socket],
        dead_after: float,
        listener: Listener,
    ) -> None:
        self._loop = loop
        self._rank = rank
        self._members = members
        self._key = key
        self._sockets = sockets
        self._dead_after = dead_after
        self._listener = listener
        self._links = [_Link() for _ in members]
        self._strangers: dict[Connection, None] = {}
        for each in sockets:
            each.setblocking(False)
            loop.watch(each, READ, partial(self._accept, each))

    def connect(self, dst: int) -> None:
        """Begin to connect with rank `dst`, if nobody has."""
        link = self._links[dst]
        if link.sending is None and link.dialled is None and not link.since and not link.gone:
            link.since = time.monotonic()
            self._dial(dst)

    def send(self, dst: int, pieces: Sequence[bytes | bytearray | memoryview], fds: Sequence[int]) -> None:
        """Send a frame, once there is a connection; what is for a rank that is gone is dropped."""
        link = self._links[dst]
        if link.gone:
            for fd in fds:
                os.close(fd)
        elif link.sending is not None:
            link.sending.send(pieces, fds)
        else:
            link.waiting.append((pieces, fds))
            self.connect(dst)

    def connected(self) -> list[int]:
        """Give the ranks with which there is a connection."""
        return [rank for rank, link in enumerate(self._links) if link.sending is not None]

    def is_idle(self, dst: int) -> bool:
        """Say whether all that was sent to `dst` has been taken by the kernel."""
        link = self._links[dst]
        return not link.waiting and (link.sending is None or link.sending.is_drained)

    def is_given_up(self, rank: int) -> bool:
        """Say whether nothing can come from `rank` any more. From any thread."""
        return self._links[rank].gone

    def give_up(self, rank: int) -> None:
        """Send nothing to `rank` any more, and keep nothing for it."""
        link = self._links[rank]
        link.gone = True
        for _, fds in link.waiting:
            for fd in fds:
                os.close(fd)
        link.waiting.clear()
        if link.dialled is not None:
            link.dialled.close()
            link.dialled = None

    def close(self) -> None:
        """Close everything."""
        for each in self._sockets:
            self._loop.ignore(each)
            each.close()
        for connection in self._all():
            connection.close()

    def abandon(self) -> None:
        """Close, in a fork, what it has inherited."""
        for each in self._sockets:
            each.close()
        for connection in self._all():
            connection.abandon()

    def opened(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        rank = int(connection.peer) if connection.peer.isdecimal() else -1
        if not 0 <= rank < len(self._links) or rank == self._rank or self._links[rank].gone:
            connection.close()
            return
        link = self._links[rank]
        if connection is link.dialled:
            link.dialled = None
        elif link.dialled is not None and not link.dialled.may_be_open_there:
            # The other side has dialled too, and was faster. It does not drop this connection: it would
            # have had to hear from ours, which is not ready.
            link.dialled.close()
            link.dialled = None
        link.since = 0.0
        if link.sending is not None:
            link.others.append(connection)
            return
        link.sending = connection
        for pieces, fds in link.waiting:
            connection.send(pieces, fds)
        link.waiting.clear()
        self._listener.reached(rank)

    def arrived(self, connection: Connection, frame: Frame) -> None:
        self._listener.arrived(int(connection.peer), frame)

    def ended(self, connection: Connection, reason: str) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            return
        for rank, link in enumerate(self._links):
            if connection is link.dialled:
                link.dialled = None
                if link.over:
                    self._listener.lost(rank, "")
                else:
                    self._redial(rank, reason or "it hung up")
                return
        rank = int(connection.peer)
        link = self._links[rank]
        if connection in link.others:
            link.others.remove(connection)
        elif connection is link.sending:
            link.sending = link.others.pop(0) if link.others else None
        # Where both had dialled and it hung up, its last words may be in the other connection still, which
        # ends as well. It is by chance whether it had read all we sent, or the connection was reset.
        if connection.hung_up:
            reason = ""
        if (
            link.sending is None
            and not reason
            and link.dialled is not None
            and link.dialled.may_be_open_there
        ):
            link.over = True  # it may have said them there: we are the only one who does not take it for open
            return
        if link.sending is None or reason:
            self._listener.lost(rank, reason)

    def _accept(self, source: socket.socket, events: int) -> None:
        for _ in range(_ACCEPTED):
            try:
                accepted, _ = source.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self._loop.ignore(source)
                    again = partial(self._loop.watch, source, READ, partial(self._accept, source))
                    self._loop.call_later(_BREATH, again)
                    return
                continue  # it has gone again
            if not is_own_user(accepted):
                accepted.close()
                continue
            harden(accepted, self._dead_after)
            handshake = Handshake(self._key, str(self._rank), dials=False)
            self._strangers[Connection(self._loop, accepted, handshake, self)] = None
            if len(self._strangers) > _STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                oldest.close()

    def _dial(self, dst: int) -> None:
        link = self._links[dst]
        if link.gone or link.sending is not None or link.dialled is not None:
            return
        there = self._members[dst]
        local = there.host == self._members[self._rank].host
        address: str | tuple[str, int] = there.local if local else (there.address, there.port)
        family = socket.AF_UNIX if local else socket.AF_INET6 if ":" in there.address else socket.AF_INET
        try:
            dialling = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # too many files are open
            self._redial(dst, error.strerror or str(error))
            return
        dialling.setblocking(False)
        harden(dialling, self._dead_after)
        code = dialling.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):  # EAGAIN: too many call it at once
            dialling.close()
            self._redial(dst, os.strerror(code))
        elif code == 0 and not is_own_user(dialling):
            dialling.close()
            self._redial(dst, "its socket belongs to another user")
        else:
            handshake = Handshake(self._key, str(self._rank), dials=True)
            link.dialled = Connection(self._loop, dialling, handshake, self, connecting=code != 0)

    def _redial(self, dst: int, reason: str) -> None:
        link = self._links[dst]
        if link.gone or link.sending is not None:
            return
        refused = reason == os.strerror(errno.ECONNREFUSED)
        if time.monotonic() - link.since > (_REFUSED if refused else _DIALLING):
            there = self._members[dst]
            place = (
                "its local socket"
                if there.host == self._members[self._rank].host
                else (
                    f"{there.address} port {there.port}, from {self._members[self._rank].address or 'here'}"
                )
            )
            self._listener.lost(dst, f"it cannot be reached at {place}: {reason}")
            return
        wait = min(_LAST_RETRY, _FIRST_RETRY * 2**link.tries) * random.uniform(0.5, 1.0)
        link.tries += 1
        self._loop.call_later(wait, partial(self._dial, dst))

    def _all(self) -> list[Connection]:
        found = list(self._strangers)
        for link in self._links:
            found += [each for each in (link.sending, link.dialled) if each is not None] + link.others
        return found
