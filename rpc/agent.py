"""What RRefs, distributed autograd and calls stand on: an agent that carries messages between workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from shardwise.rpc.future import Future
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["Agent", "Companion", "Handler", "Incoming", "Outgoing", "Place", "Reducer", "Request"]

Place: TypeAlias = Literal["io", "pool"]
"""Where a handler runs. ``"io"``: on the one thread that reads sockets, at once, also while every thread of
the pool waits; it must be quick, never wait, and run no code of users. ``"pool"``: on one that may wait."""


@dataclass(slots=True)
class Outgoing:
    """A message while it is being written: reducers and companions leave here what belongs to it.

    Attributes
    ----------
    agent : Agent
    to : int
        Id of the worker it goes to.
    kind : str
        For an answer, that of the request.
    reply_to : Incoming or None
        The request that it answers.
    tensors : list
        All tensors in it, in the order in which they were met.
    undo : list of callable
        Called, on any thread, if it is certain that the message has not arrived and never will.
    """

    agent: Agent
    to: int
    kind: str
    reply_to: Incoming | None = None
    tensors: list[Any] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class Incoming:
    """A message while it is being read.

    Attributes
    ----------
    agent : Agent
    src : int
        Id of the worker that sent it.
    kind : str
        For an answer, that of the request.
    reply_to : Outgoing or None
        The request that it answers.
    notes : dict
        What the companions of the sender have left, by their keys.
    tensors : list
        As for `Outgoing`.
    before : list of Future
        The handler starts, or the answer is handed over, once all of these are done: the confirmations of
        RRefs that came along.
    """

    agent: Agent
    src: int
    kind: str
    reply_to: Outgoing | None = None
    notes: dict[str, object] = field(default_factory=dict)
    tensors: list[Any] = field(default_factory=list)
    before: list[Future[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler gets.

    Attributes
    ----------
    src : int
        Id of the worker that asks.
    payload : object
        A copy of what it has sent.
    incoming : Incoming
    """

    src: int
    payload: Any
    incoming: Incoming


Handler: TypeAlias = Callable[[Request], object]
"""Gives the answer, or a Future of it; what it raises is raised where it was asked. Posts have none."""

Reducer: TypeAlias = Callable[[Any, Outgoing], tuple[Callable[..., object], tuple[object, ...]]]
"""How objects of a type are sent: as ``__reduce__``, a function of a module and its arguments."""


class Companion(Protocol):
    """Something that travels with every request and answer, as distributed autograd does.

    Attributes
    ----------
    key : str
        Its name in `Incoming.notes`.
    """

    key: str

    def leave(self, outgoing: Outgoing) -> object:
        """Give what is to travel, None for nothing. Called by the sender once the payload was written."""

    def arrive(self, note: object, incoming: Incoming) -> AbstractContextManager[object] | None:
        """Take it up; only where there is a note. Called once the payload was read, by that thread.

        A handler runs inside of what this gives; for answers that is not looked at.
        """


class Agent(Protocol):
    """One worker's end. `SocketAgent` is the real one; tests simulate others in one process.

    Any thread may call its methods. Workers are named by their ids, from 0. Handlers, and what `run` calls,
    run inside of ``entered_agent(self)``. An answer that comes too late for its asker is read all the same,
    and dropped: RRefs in it are let go of so.
    """

    parts: dict[type, Any]
    """What stands on this agent, by its type: the table of RRefs, the contexts of autograd, mailboxes."""

    @property
    def me(self) -> WorkerInfo:
        """This worker."""

    @property
    def workers(self) -> Sequence[WorkerInfo]:
        """All of them, by id."""

    def send(
        self, to: int, kind: str, payload: object, timeout: float | None = None, *, blocking: bool = True
    ) -> Future[Any]:
        """Ask worker `to`, which may be this one: it always gets a copy.

        What cannot be pickled raises here, at once. `timeout` is in seconds, 0 for never, None for the
        default of the agent; it is counted from here, and always ends the Future. There is no second try.
        With ``blocking=False`` it is sent though more is under way than the window allows.
        """

    def post(self, to: int, kind: str, payload: object) -> None:
        """Send a control message for which nobody waits: it arrives at least once, unless `to` dies.

        It may come twice, and behind what was sent later. Its handler must bear that. Not for finalisers:
        they use `soon`.
        """

    def on(self, kind: str, handler: Handler, place: Place) -> None:
        """Have `handler` called with messages of `kind`, in `place`; before the first one can come."""

    def reduce(self, kind: type, reducer: Reducer) -> None:
        """Send objects of the type `kind`, and of those derived from it, as `reducer` says."""

    def accompany(self, companion: Companion) -> None:
        """Have `companion` travel with every request and answer from now on."""

    def soon(self, call: Callable[[], None]) -> None:
        """Have `call` called on the io thread. Takes no lock and sends nothing: finalisers may use it."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have `call` called on the io thread after some time (of the simulation, in one)."""

    def run(self, call: Callable[[], None]) -> None:
        """Have `call` called on a thread of the pool: code of users, callbacks, what may wait."""

    def on_death(self, call: Callable[[int, Exception], None]) -> None:
        """Have `call` called, on the io thread, with the id of a worker that has died and why."""

    def before_shutdown(self, call: Callable[[float | None], None]) -> None:
        """Have `call` called in a graceful shutdown, on the thread that shuts down.

        That is once all workers have entered it and while all still serve; it may wait, for the seconds that
        it is given at most (None: without end). Calls are made in the order in which they came here.
        """
