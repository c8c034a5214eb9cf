"""Methods of remote values: proxies whose attributes are calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardwise.backend.source import source_place
from shardwise.rpc.future import Future
from shardwise.rpc.stream import RemoteIterator, Source
from shardwise.rpc.turn import Turns

if TYPE_CHECKING:
    from shardwise.rpc.rref import RRef

__all__ = ["AsyncCalls", "RemoteCalls", "StreamCalls", "SyncCalls", "call_method"]


class _Calls:
    """What the proxies share: any attribute is a method of the value, wherever that is."""

    __slots__ = ("_rref", "_timeout")

    def __init__(self, rref: RRef[Any], timeout: float | None) -> None:
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

    def __getattr__(self, name: str) -> Callable[..., RRef[Any]]:
        kind = self._rref._get_type(-1 if self._timeout is None else self._timeout)
        if not hasattr(kind, name):
            raise AttributeError(
                f"{kind.__qualname__!r} object, on {self._rref.owner()}, has no attribute {name!r}"
            )
        return lambda *args, **kwargs: self._make(call_method, (name, args, kwargs))

    def _make(self, function: Callable[..., Any], args: tuple[Any, ...], ordered: bool = False) -> RRef[Any]:
        rref = self._rref
        table, to = rref.table, rref.owner().id
        reference, fork = table.begin(to, source_place(), ordered)
        try:
            payload = (reference.id, fork, ordered, function, (rref, *args), dict[str, Any]())
            answer = table.agent.send(to, "rref.create", payload, self._timeout)
        except BaseException:
            table.drop_begun(reference)
            raise
        table.made(reference, answer)
        return type(rref).over(table, reference)


class StreamCalls(RemoteCalls):
    """``proxy.method(*args)`` iterates over what a generator gives on the owner."""

    __slots__ = ("_window",)

    def __init__(self, rref: RRef[Any], timeout: float | None, window: int) -> None:
        super().__init__(rref, timeout)
        self._window = window

    def __getattr__(self, name: str) -> Callable[..., RemoteIterator]:  # type: ignore[override]
        def begin(*args: Any, **kwargs: Any) -> RemoteIterator:
            source = self._make(_open_method, (name, args, kwargs), ordered=True)
            return RemoteIterator(source, self._window, self._timeout)

        return begin


def call_method(rref: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of a value, on its owner."""
    return getattr(rref.local_value(), name)(*args, **kwargs)


def _open_method(rref: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Source:
    return Source(call_method(rref, name, args, kwargs))
