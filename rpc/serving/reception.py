"""Requests of others: read, handed to their handler, answered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

from shardwise.backend.errors import RpcError
from shardwise.rpc.agent import Companion, Handler, Incoming, Outgoing, Place, Request
from shardwise.rpc.future import Future, collect_all
from shardwise.rpc.pickling import Parcel, Reducers, pack, unpack
from shardwise.rpc.serving.chain import Link, current_link
from shardwise.rpc.serving.failure import describe_failure
from shardwise.rpc.serving.gather import GATHER
from shardwise.rpc.serving.pool import Pool
from shardwise.rpc.serving.stats import Stats
from shardwise.rpc.wire.frame import Frame, Type

if TYPE_CHECKING:
    from shardwise.collectives.control.loop import Loop
    from shardwise.rpc.agent import Agent

__all__ = ["Reception", "arrive", "label_of"]

_log = logging.getLogger(__name__)


class Reception:
    """Serves what comes to one worker.

    Parameters
    ----------
    agent : Agent
    loop : Loop
    pool : Pool
    reducers : Reducers
    companions : sequence of Companion
        The agent's own list, which grows.
    stats : Stats
    where : str
        What a note on an exception says of this worker.
    ship : callable
        ``ship(to, frame)`` sends an answer.
    """

    def __init__(
        self,
        agent: Agent,
        loop: Loop,
        pool: Pool,
        reducers: Reducers,
        companions: Sequence[Companion],
        stats: Stats,
        where: str,
        ship: Callable[[int, Frame], None],
    ) -> None:
        self._agent = agent
        self._loop = loop
        self._pool = pool
        self._reducers = reducers
        self._companions = companions
        self._stats = stats
        self._where = where
        self._ship = ship
        self._handlers: dict[str, tuple[Handler, Place]] = {}
        self._lock = threading.Lock()
        self._came = 0
        self._ended = 0

    def on(self, kind: str, handler: Handler, place: Place) -> None:
        """Have `handler` called with requests of `kind`."""
        if kind in self._handlers:
            raise RpcError(f"two handlers for messages of kind {kind!r}; each kind has one.")
        self._handlers[kind] = (handler, place)

    def place(self, kind: str) -> Place:
        """Say where requests of `kind` are handled, and so their answers."""
        return self._handlers.get(kind, (None, "pool"))[1]

    @property
    def counts(self) -> tuple[int, int]:
        """How many requests have come, and how many of them have ended."""
        with self._lock:
            return self._came, self._ended

    def take(self, src: int, frame: Frame) -> None:
        """Take a request, on the io thread, or on any for one of this worker itself."""
        if frame.kind != GATHER:
            with self._lock:
                self._came += 1
        handler, place = self._handlers.get(frame.kind, (_unknown, "pool"))
        serve = partial(self._serve, src, frame, handler, place, time.monotonic())
        if place == "pool":
            self._pool.submit(serve)
        elif self._loop.is_current():
            serve()
        else:
            self._loop.call_soon(serve)

    def _serve(self, src: int, frame: Frame, handler: Handler, place: Place, came: float) -> None:
        incoming = Incoming(self._agent, src, frame.kind)
        guest = _Guest(src, frame, incoming, place, came, frame.parcel.nbytes)
        try:
            payload = unpack(frame.parcel, incoming)
            frame.parcel = Parcel(b"", b"", ())  # the payload owns the memory now
            scopes = arrive(self._companions, incoming)
        except BaseException as error:
            if isinstance(error, AttributeError | ImportError):
                error.add_note(
                    "Functions and classes are sent by reference: this worker must be able to import what is "
                    "called, under the same name."
                )
            self._fail(guest, error)
            return
        guest.label = label_of(frame.kind, payload)
        run = partial(self._run, guest, handler, payload, scopes)
        if not incoming.before:
            run()
            return

        def confirmed(before: Future[list[Future[object]]]) -> None:
            error = before.exception()
            call = run if error is None else partial(self._fail, guest, error)
            if place == "pool":
                self._pool.submit(call)
            else:
                self._loop.call_soon(call)

        collect_all(incoming.before).on_done(confirmed)

    def _run(
        self,
        guest: _Guest,
        handler: Handler,
        payload: object,
        scopes: Sequence[AbstractContextManager[object]],
    ) -> None:
        token = current_link.set(Link(guest.frame.chain, guest.frame.depth))
        try:
            if scopes:
                with ExitStack() as stack:
                    for scope in scopes:
                        stack.enter_context(scope)
                    result = handler(Request(guest.src, payload, guest.incoming))
            else:
                result = handler(Request(guest.src, payload, guest.incoming))
        except BaseException as error:
            self._fail(guest, error)
            return
        finally:
            current_link.reset(token)
        if isinstance(result, Future):
            result.on_done(partial(self._later, guest))
        else:
            self._answer(guest, result)

    def _later(self, guest: _Guest, result: Future[object]) -> None:
        """Answer with the outcome of a Future, on a thread that may run code of users if it is theirs."""
        if guest.place == "pool" and self._loop.is_current():
            self._pool.submit(partial(self._settle, guest, result))
        else:
            self._settle(guest, result)

    def _settle(self, guest: _Guest, result: Future[object]) -> None:
        error = result.exception()
        if error is None:
            self._answer(guest, result.value())
        else:
            self._fail(guest, error)

    def _answer(self, guest: _Guest, value: object) -> None:
        outgoing = Outgoing(self._agent, guest.src, guest.frame.kind, guest.incoming)
        try:
            parcel = pack(value, outgoing, self._reducers, self._companions)
        except Exception as error:
            error.add_note(f"while the answer of {guest.label} was written")
            self._fail(guest, error)
            return
        self._end(guest, Frame(Type.ANSWER, guest.frame.id, parcel=parcel), False)

    def _fail(self, guest: _Guest, error: BaseException) -> None:
        _log.info("%s, asked by worker %d, failed on %s", guest.label, guest.src, self._where, exc_info=error)
        outgoing = Outgoing(self._agent, guest.src, guest.frame.kind, guest.incoming)
        parcel = pack(describe_failure(error, self._where), outgoing, self._reducers)
        self._end(guest, Frame(Type.FAILURE, guest.frame.id, parcel=parcel), True)

    def _end(self, guest: _Guest, frame: Frame, failed: bool) -> None:
        self._ship(guest.src, frame)
        if guest.frame.kind == GATHER:
            return
        with self._lock:
            self._ended += 1
        seconds = time.monotonic() - guest.came
        self._stats.add("served", guest.src, guest.label, guest.nbytes + frame.parcel.nbytes, seconds, failed)


class _Guest:
    """One request while it is served."""

    __slots__ = ("came", "frame", "incoming", "label", "nbytes", "place", "src")

    def __init__(
        self, src: int, frame: Frame, incoming: Incoming, place: Place, came: float, nbytes: int
    ) -> None:
        self.src = src
        self.frame = frame
        self.incoming = incoming
        self.place = place
        self.came = came
        self.nbytes = nbytes
        self.label = frame.kind


def arrive(companions: Sequence[Companion], incoming: Incoming) -> Sequence[AbstractContextManager[object]]:
    """Have the companions take up what those of the sender have left."""
    if not incoming.notes:
        return ()
    scopes = []
    for companion in companions:
        if companion.key in incoming.notes:
            scope = companion.arrive(incoming.notes[companion.key], incoming)
            if scope is not None:
                scopes.append(scope)
    return scopes


def label_of(kind: str, payload: object) -> str:
    """Say what is asked, for people: payloads of calls begin with their function."""
    if isinstance(payload, tuple) and payload and callable(payload[0]):
        function = payload[0]
        return f"{kind} {getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}"
    return kind


def _unknown(request: Request) -> object:
    raise RpcError(
        f"nobody handles messages of kind {request.incoming.kind!r} here; all workers must run one version."
    )
