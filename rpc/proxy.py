"""Methods of remote values: proxies whose attributes are calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from shardwise.backend.source import source_place
from shardwise.rpc.future import Future
from shardwise.rpc.remote_iterator import RemoteIterator, Source
from shardwise.rpc.rref_state import Reference
from shardwise.rpc.rref_table import RRefTable
from shardwise.rpc.turn import Turns
from shardwise.rpc.worker_info import WorkerInfo

__all__ = ["AsyncCalls", "RemoteCalls", "StreamCalls", "SyncCalls", "call_method"]


class Callee(Protocol):
    """What a proxy needs of an `RRef`."""

    @property
    def table(self) -> RRefTable:
        """The table that it belongs to."""

    @property
    def reference(self) -> Reference:
        """The cell or handle that it stands for."""

    @classmethod
    def over(cls, table: RRefTable, reference: Reference) -> Any:
        """Make one for a cell or handle."""

    def owner(self) -> WorkerInfo:
        """Give the worker that has the value."""

    def local_value(self) -> Any:
        """Give the value, on its owner."""

    def ask(self, kind: str, arguments: tuple[object, ...], timeout: float | None) -> Future[Any]:
        """Send the owner a message about the value."""

    def value_type(self, timeout: float = -1, blocking: bool = True) -> Any:
        """Give the type of the value."""


class _Calls:
    """What the proxies share: any attribute is a method of the value, wherever that is."""

    __slots__ = ("_rref", "_timeout")

    def __init__(self, rref: Callee, timeout: float | None) -> None:
        self._rref = rref
        self._timeout = timeout

    def _ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        rref = self._rref
        turn = None
        if rref.reference.ordered:
            turn = rref.table.agent.parts[Turns].take(rref.reference.id)
        return rref.ask("rref.call", (turn, name, args, kwargs), self._timeout)


class SyncCalls(_Calls):
    """``proxy.method(*args)`` runs on the owner, and gives the result."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._ask(name, args, kwargs).wait()


class AsyncCalls(_Calls):
    """``proxy.method(*args)`` runs on the owner, and gives a `Future`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Future[Any]]:
        return lambda *args, **kwargs: self._ask(name, args, kwargs)


class RemoteCalls(_Calls):
    """``proxy.method(*args)`` runs on the owner, and gives an `RRef` of the result, which stays there."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kind = self._rref.value_type(-1 if self._timeout is None else self._timeout)
        if not hasattr(kind, name):
            raise AttributeError(
                f"{kind.__qualname__!r} object, on {self._rref.owner()}, has no attribute {name!r}"
            )
        return lambda *args, **kwargs: self._make(call_method, (name, args, kwargs))

    def _make(self, function: Callable[..., Any], args: tuple[Any, ...], ordered: bool = False) -> Any:
        rref = self._rref
        table, to = rref.table, rref.owner().id
        reference, fork = table.begin(to, source_place(), ordered)
        try:
            payload = (function, (rref, *args), dict[str, Any](), reference.id, fork, ordered)
            answer = table.agent.send(to, "rref.create", payload, self._timeout)
        except BaseException:
            table.drop_begun(reference)
            raise
        table.made(reference, answer)
        return type(rref).over(table, reference)


class StreamCalls(RemoteCalls):
    """``proxy.method(*args)`` iterates over what a generator gives on the owner."""

    __slots__ = ("_window",)

    def __init__(self, rref: Callee, timeout: float | None, window: int) -> None:
        super().__init__(rref, timeout)
        self._window = window

    def __getattr__(self, name: str) -> Callable[..., RemoteIterator]:
        def begin(*args: Any, **kwargs: Any) -> RemoteIterator:
            source = self._make(_open_method, (name, args, kwargs), ordered=True)
            return RemoteIterator(source, self._window, self._timeout)

        return begin


def call_method(rref: Callee, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of a value, on its owner."""
    return getattr(rref.local_value(), name)(*args, **kwargs)


def _open_method(rref: Callee, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Source:
    return Source(call_method(rref, name, args, kwargs))
