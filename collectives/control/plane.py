"""Messages between ranks that need no collective, and arrive while one is stuck."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from shardwise.backend.errors import CollectiveError
from shardwise.collectives.control.frame import JSON, Frame, encode
from shardwise.collectives.control.link import Links
from shardwise.collectives.control.liveness import Liveness, Peer, State
from shardwise.collectives.control.loop import Loop
from shardwise.collectives.control.member import Member
from shardwise.collectives.control.message import Handler, Message

__all__ = ["ControlPlane"]

_log = logging.getLogger(__name__)

_BEAT = 1.0
_CROWD = 128  # ranks above which rank 0 is spared: all beat more seldom
_KEPT = 10_000  # messages of one kind that are kept for a handler to come
_GATHERING = 50e-6  # seconds for each rank
_HEARSAY = 1.0  # seconds in which rank 0 tells how another rank has ended
_FLUSH = 2.0  # seconds for the last messages to go out
_NEWS, _BEATS = "~news", "~beat"


class ControlPlane:
    """Authenticated sockets between all ranks of a world, served by one thread.

    Any thread may call its methods. Handlers run on the control plane's thread: they are quick and never
    block. A fork has none of it.

    Parameters
    ----------
    rank : int
    members : sequence of Member
        Of all ranks, in rank order.
    key : bytes
        Of the job.
    sockets : sequence of socket.socket
        Bound and listening, as `members` says of this rank; the control plane owns them.
    dead_after : float
        Seconds after which a host that does not answer counts as dead.

    Attributes
    ----------
    rank, size : int
    members : tuple of Member
    hosts : tuple of str
        Of each rank, a text that is equal for ranks that share memory and local sockets.
    """

    def __init__(
        self,
        rank: int,
        members: Sequence[Member],
        key: bytes,
        sockets: Sequence[socket.socket],
        dead_after: float = 15.0,
    ) -> None:
        self.rank = rank
        self.size = len(members)
        self.members = tuple(members)
        self.hosts = tuple(member.host for member in members)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._handlers: dict[str, Handler] = {}
        self._kept: dict[str, list[Message]] = {}
        self._questions: dict[int, _Question] = {}
        self._asked = 0
        self._gathered: list[Mapping[str, JSON]] = []
        self._interval = _BEAT * max(1.0, self.size / _CROWD)
        self._liveness = Liveness(self.size, self._interval)
        self._loop = Loop("shardwise-control")
        self._links = Links(self._loop, rank, members, key, sockets, dead_after, self)
        self._handlers[_NEWS] = self._news_came
        self._handlers[_BEATS] = self._beat_came
        if rank:
            self._loop.call_soon(partial(self._links.connect, 0))
        self._loop.call_later(self._interval, self._beat)
        self._loop.start()
        for_fork = weakref.ref(self)
        os.register_at_fork(
            before=partial(_hold, for_fork),
            after_in_parent=partial(_let_go, for_fork),
            after_in_child=partial(_abandon, for_fork),
        )

    def __repr__(self) -> str:
        return f"ControlPlane(rank {self.rank} of {self.size}, {len(set(self.hosts))} hosts)"

    def send(
        self,
        dst: int,
        kind: str,
        body: Mapping[str, JSON] | None = None,
        data: bytes | bytearray | memoryview = b"",
        fds: Sequence[int] = (),
    ) -> None:
        """Queue a message for rank `dst`, which may be this one. Does not wait.

        Messages of one sender arrive in their order. What is for a rank that is gone is dropped.

        Parameters
        ----------
        dst : int
            Global rank.
        kind : str
            Which handler of `dst` gets it.
        body : mapping, optional
            JSON values.
        data : bytes-like
            Sent as it is, without a copy: leave it alone until it has arrived.
        fds : sequence of int
            File descriptors, if `dst` is on this host. They are duplicated; the caller's stay open.

        Raises
        ------
        CollectiveError
            If there is no such rank, it is on another host and cannot get file descriptors, the control
            plane is closed, or this is a fork.
        """
        self._send(dst, kind, body or {}, data, fds, 0)

    def on(self, kind: str, handler: Handler) -> None:
        """Have `handler` called with messages of `kind`, also with those that have come before."""
        with self._lock:
            self._handlers[kind] = handler
        self._loop.call_soon(partial(self._deliver_kept, kind))

    def ask(
        self,
        ranks: Iterable[int],
        kind: str,
        body: Mapping[str, JSON] | None = None,
        data: bytes | bytearray | memoryview = b"",
        timeout: float = 2.0,
    ) -> dict[int, Message]:
        """Send a message to several ranks and wait for their answers.

        Parameters
        ----------
        ranks : iterable of int
            This rank may be one of them.
        kind, body, data
            As for `send`. The handler calls `answer`, at once or later.
        timeout : float
            Seconds to wait at most; ranks that are gone are not waited for.

        Returns
        -------
        dict of int to Message
            The answers that came in time.
        """
        if self._loop.is_current():
            raise CollectiveError(
                "a handler of the control plane cannot wait for answers; ask on another thread."
            )
        question = _Question(tuple(ranks))
        with self._lock:
            self._asked += 1
            token = self._asked
            self._questions[token] = question
        try:
            for rank in question.ranks:
                self._send(rank, kind, body or {}, data, (), token)
            deadline = time.monotonic() + timeout
            while (left := deadline - time.monotonic()) > 0 and not self._is_answered(question):
                question.changed.wait(min(left, 0.1))
                question.changed.clear()
        finally:
            with self._lock:
                del self._questions[token]
        return dict(question.answers)

    def answer(
        self,
        message: Message,
        body: Mapping[str, JSON] | None = None,
        data: bytes | bytearray | memoryview = b"",
    ) -> None:
        """Answer a message that came from `ask`."""
        self._send(message.src, message.kind, body or {}, data, (), -message.token)

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Have `call` called again and again, on the control plane's thread; it is quick and never blocks."""
        self._loop.call_soon(partial(self._repeat, seconds, call))

    def peer(self, rank: int) -> Peer:
        """Give what is known of a rank: whether it lives, since when it is silent, how it ended."""
        return Peer("alive", 0.0) if rank == self.rank else self._liveness.peer(rank)

    @property
    def liveness(self) -> Liveness:
        """What is known of all ranks."""
        return self._liveness

    def tell(self, state: State, when: float, reason: str = "") -> None:
        """Tell all other ranks that this one has left or failed. Does not wait."""
        news: dict[str, JSON] = {"rank": self.rank, "state": state, "when": when, "reason": reason}
        self._loop.call_soon(partial(self._spread, news))

    def flush(self, timeout: float = _FLUSH) -> None:
        """Wait until what was sent to ranks that live will arrive without us, at most `timeout` seconds."""
        done = threading.Event()

        def look() -> None:
            gone = self._liveness.gone()
            # One that has left waits for the news that all have; if it has ended, so has the connection.
            dead = {rank for rank, peer in gone.items() if peer.state == "dead"}
            idle = all(rank in dead or self._links.is_idle(rank) for rank in self._others())
            if idle and not self._gathered:
                done.set()
            elif not self._closed:
                self._loop.call_later(0.002, look)

        self._loop.call_soon(look)
        done.wait(timeout)

    def close(self) -> None:
        """End the control plane: the others learn that this rank is gone, if they have not been told."""
        if self._closed:
            return
        if os.getpid() == self._pid:
            self.flush()
            self._closed = True
            self._loop.close()
            self._links.close()
        self._closed = True

    def hold(self) -> None:
        """Have its thread pause while this process is forked."""
        self._loop.hold()

    def let_go(self) -> None:
        """Undo `hold`."""
        self._loop.let_go()

    def abandon(self) -> None:
        """Close, in a fork, what it has inherited, so that it does not keep alive what the rank has."""
        if not self._closed:
            self._closed = True
            self._loop.abandon()
            self._links.abandon()

    def arrived(self, src: int, frame: Frame) -> None:
        """Take a frame from the links."""
        self._liveness.heard(src)
        self._deliver(Message(src, frame.kind, frame.body, frame.data, frame.fds, frame.token))

    def reached(self, rank: int) -> None:
        """Note a connection."""
        self._liveness.heard(rank)

    def lost(self, rank: int, reason: str) -> None:
        """Note the end of a connection, which is the end of a rank, unless it has said goodbye."""
        if self._closed:
            return
        self._links.give_up(rank)
        if rank == 0 and self._liveness.peer(0).state == "left":
            for other in self._others():  # it is the last to go, so they have all left
                self._ended(other, "left", time.time(), "")
        died = partial(self._ended, rank, "dead", time.time(), reason or "its process ended without a word")
        if 0 in (self.rank, rank) or self._liveness.peer(0).is_gone:
            died()
        else:  # its goodbye may be on its way, by rank 0, which also knows best if it died
            self._loop.call_later(_HEARSAY, died)

    def _send(
        self,
        dst: int,
        kind: str,
        body: Mapping[str, JSON],
        data: bytes | bytearray | memoryview,
        fds: Sequence[int],
        token: int,
    ) -> None:
        where = f"control message {kind!r} from rank {self.rank}"
        if os.getpid() != self._pid:
            raise CollectiveError(f"{where}: this process was forked from it and is no rank itself.")
        if self._closed:
            raise CollectiveError(f"{where}: its world was shut down.")
        if not 0 <= dst < self.size:
            raise CollectiveError(f"{where} to rank {dst}; wanted a global rank from 0 to {self.size - 1}.")
        if fds and self.hosts[dst] != self.hosts[self.rank]:
            raise CollectiveError(
                f"{where} to rank {dst} on {self.members[dst].hostname}: file descriptors only go to ranks "
                f"of the same host, {self.members[self.rank].hostname}."
            )
        header = encode(kind, body, token, memoryview(data).nbytes, len(fds))
        own = [os.dup(fd) for fd in fds]
        if dst == self.rank:
            message = Message(dst, kind, body, bytearray(data), tuple(own), token)
            self._loop.call_soon(partial(self._deliver, message))
        else:
            self._loop.call_soon(partial(self._links.send, dst, (header, data), own))

    def _repeat(self, seconds: float, call: Callable[[], None]) -> None:
        if not self._closed:
            self._loop.call_later(seconds, partial(self._repeat, seconds, call))
            call()

    def _deliver(self, message: Message) -> None:
        if message.token < 0:
            with self._lock:
                question = self._questions.get(-message.token)
            if question is not None:
                question.answers[message.src] = message
                question.changed.set()
            return
        with self._lock:
            handler = self._handlers.get(message.kind)
            if handler is None or self._kept.get(message.kind):
                kept = self._kept.setdefault(message.kind, [])
                if len(kept) < _KEPT:
                    kept.append(message)
                    return
                _log.warning("rank %d drops a message of kind %r: nobody takes them", self.rank, message.kind)
        if handler is not None:
            handler(message)

    def _deliver_kept(self, kind: str) -> None:
        with self._lock:
            kept = self._kept.pop(kind, [])
        for message in kept:
            self._deliver(message)

    def _is_answered(self, question: _Question) -> bool:
        return all(rank in question.answers or self._links.is_given_up(rank) for rank in question.ranks)

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _ended(self, rank: int, state: State, when: float, reason: str) -> None:
        if self._liveness.ended(rank, state, when, reason):
            if state == "dead":
                self._links.give_up(rank)
            if self.rank == self._center():
                self._spread({"rank": rank, "state": state, "when": when, "reason": reason})

    def _center(self) -> int:
        """Give the rank that passes news on: rank 0, or whoever is left when that has died."""
        gone = self._liveness.gone()
        dead = {rank for rank, peer in gone.items() if peer.state == "dead"}
        return min(rank for rank in range(self.size) if rank not in dead or rank == self.rank)

    def _spread(self, news: Mapping[str, JSON]) -> None:
        """Tell everyone: by the one in the middle, and those with whom there is a connection directly.

        The one in the middle gathers for a moment: all ranks may end at once.
        """
        if self.rank != self._center():
            self._tell({self._center(), *self._links.connected()}, [news])
            return
        if not self._gathered:
            self._loop.call_later(_GATHERING * self.size, self._tell_gathered)
        self._gathered.append(news)

    def _tell_gathered(self) -> None:
        news, self._gathered = self._gathered, []
        self._tell(self._others(), news)

    def _tell(self, ranks: Iterable[int], news: Sequence[Mapping[str, JSON]]) -> None:
        header = encode(_NEWS, {"news": news}, 0, 0, 0)
        for rank in ranks:
            self._links.send(rank, (header,), ())

    def _news_came(self, message: Message) -> None:
        news = message.body.get("news")
        for each in news if isinstance(news, list) else ():
            match each:
                case {"rank": int(rank), "state": "left" | "failed" | "dead" as state, "when": float(when)}:
                    if rank != self.rank:
                        self._ended(rank, state, when, str(each.get("reason", "")))

    def _beat(self) -> None:
        if self._closed:
            return
        silent = {
            str(rank): round(self._liveness.silence(rank), 1)
            for rank in (self._others() if self.rank == 0 else ())
            if self._liveness.silence(rank) > 2 * self._interval
        }
        header = encode(_BEATS, {"silent": silent}, 0, 0, 0)
        for rank in self._others() if self.rank == 0 else (0,):
            # One that does not read is not written to, lest the kernel gives it up for that.
            if not self._liveness.peer(rank).is_gone and self._links.is_idle(rank):
                self._links.send(rank, (header,), ())
        self._loop.call_later(self._interval, self._beat)

    def _beat_came(self, message: Message) -> None:
        """Rank 0 says who is silent; all others are not."""
        if message.src != 0:
            return
        silent = message.body.get("silent")
        ages = silent if isinstance(silent, Mapping) else {}
        for rank in range(1, self.size):
            age = ages.get(str(rank), 0.0)
            if isinstance(age, float | int):
                self._liveness.heard(rank, float(age))


class _Question:
    """What `ask` waits for."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.answers: dict[int, Message] = {}
        self.changed = threading.Event()


def _hold(plane: weakref.ref[ControlPlane]) -> None:
    found = plane()
    if found is not None:
        found.hold()


def _let_go(plane: weakref.ref[ControlPlane]) -> None:
    found = plane()
    if found is not None:
        found.let_go()


def _abandon(plane: weakref.ref[ControlPlane]) -> None:
    found = plane()
    if found is not None:
        found.abandon()
