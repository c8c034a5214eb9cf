"""What a worker keeps of one remote value: the value, if it owns it, or a handle on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from shardwise.backend.source import Place
from shardwise.rpc.future import Future
from shardwise.rpc.mailbox import Mailbox

__all__ = ["Cell", "GlobalId", "Handle", "Reference", "Wire", "described"]


class GlobalId(NamedTuple):
    """A number that no other worker gives away.

    Attributes
    ----------
    created_on, local_id : int
        The worker that made it, and its count there.
    """

    created_on: int
    local_id: int

    def __str__(self) -> str:
        return f"GloballyUniqueId(created_on={self.created_on}, local_id={self.local_id})"


Wire: TypeAlias = "tuple[int, GlobalId, GlobalId, int, bool]"
"""An RRef in a message: owner, id, id of the new fork, the worker that gives it, ordered."""


class Cell:
    """An owner's value: there, failed, or still to come.

    Attributes
    ----------
    id : GlobalId
    value : Future
    forks : dict of GlobalId to int
        The handles that are known, and the worker that holds each.
    creating : bool
        Its making has not been heard of yet, or has not ended.
    ordered : bool
        Calls of its methods run one at a time, those of a worker in their order.
    line : Place or None
        Where it was made, if that was on this worker.
    """

    __slots__ = ("__weakref__", "creating", "forks", "id", "line", "mailbox", "ordered", "value")

    def __init__(
        self,
        id: GlobalId,
        run: Callable[[Callable[[], None]], None],
        creating: bool,
        ordered: bool = False,
        line: Place | None = None,
    ) -> None:
        self.id = id
        self.ordered = ordered
        self.mailbox: Mailbox | None = None  # made with the first call, where calls are ordered
        self.value: Future[Any] = Future(run)
        self.forks: dict[GlobalId, int] = {}
        self.creating = creating
        self.line = line


class Handle:
    """A user's share in a value that lies elsewhere.

    Attributes
    ----------
    id, fork : GlobalId
    owner : int
    ready : Future
        Done when the owner has confirmed it, or it has failed.
    error : Exception or None
        Why it cannot be used.
    failed_there : bool
        The owner has answered so, and keeps the error until it hears of the end of this handle.
    children : dict of GlobalId to int
        Handles made from this one that were not accepted yet, and where they went.
    dropped : bool
        Nobody uses it here any more.
    ordered : bool
        As for a cell.
    line : Place or None
        Where it was made, if that was on this worker.
    """

    __slots__ = (
        "children",
        "dropped",
        "ended",
        "error",
        "failed_there",
        "fork",
        "id",
        "line",
        "ordered",
        "owner",
        "ready",
    )

    def __init__(
        self, id: GlobalId, fork: GlobalId, owner: int, ordered: bool = False, line: Place | None = None
    ) -> None:
        self.ordered = ordered
        self.id = id
        self.fork = fork
        self.owner = owner
        self.line = line
        self.ready: Future[None] = Future()
        self.error: Exception | None = None
        self.children: dict[GlobalId, int] = {}
        self.failed_there = False
        self.dropped = False
        self.ended = False


Reference: TypeAlias = Cell | Handle


def described(reference: Reference) -> str:
    """Name a reference in a message."""
    if isinstance(reference, Cell):
        return f"OwnerRRef({reference.id})"
    return f"UserRRef(RRefId = {reference.id}, ForkId = {reference.fork})"
