"""Remote generators: values made on one worker and used on another, never far ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from shardwise.backend.errors import ArgumentError
from shardwise.rpc.future import Future

__all__ = ["RemoteIterator", "Source", "open_source"]

_END = object()


class SourceReference(Protocol):
    """An `RRef` of a source."""

    def rpc_async(self, timeout: float = -1) -> Any:
        """Give the proxy by which it is called."""

    def release(self) -> None:
        """End the reference."""


class Source:
    """A generator on the worker that runs it; gives its values in lots.

    Parameters
    ----------
    values : iterable
    """

    def __init__(self, values: Any) -> None:
        self._values = iter(values)

    def take(self, n: int) -> tuple[list[Any], bool, Exception | None]:
        """Give the next `n` values, whether these were the last, and what ended them if that was an error."""
        taken: list[Any] = []
        try:
            taken.extend(islice(self._values, n))
        except Exception as error:
            return taken, True, error
        return taken, len(taken) < n, None

    def close(self) -> None:
        """End the generator early."""
        close = getattr(self._values, "close", None)
        if close is not None:
            close()


class RemoteIterator(Iterator[Any], AsyncIterator[Any]):
    """Iterates over the values of a remote generator, in a plain loop or under ``async for``.

    Half of the window is on its way while the other half is used. The source is an ordered actor. `close`, or
    the end of a ``with`` block, ends the generator early.

    Parameters
    ----------
    source : RRef of Source
    window : int
        Values that are made before they are asked for, at most.
    timeout : float or None
        For each request.
    """

    def __init__(self, source: SourceReference, window: int, timeout: float | None) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise ArgumentError(f"window={window!r}; wanted the number of values that may wait, from 1 up")
        self._source: SourceReference | None = source
        self._lot = max(1, window // 2)
        self._lots = min(2, window)
        self._timeout = -1 if timeout is None else timeout
        self._here: deque[Any] = deque()
        self._error: Exception | None = None
        self._coming: deque[Future[Any]] = deque()
        self._ask()

    def _ask(self) -> None:
        while self._source is not None and len(self._coming) < self._lots:
            self._coming.append(self._source.rpc_async(self._timeout).take(self._lot))

    def _take_up(self, lot: tuple[Sequence[Any], bool, Exception | None]) -> None:
        values, last, self._error = lot
        self._here.extend(values)
        self._coming.popleft()
        if last:
            self._let_go()

    def _let_go(self) -> None:
        self._coming.clear()
        if self._source is not None:
            self._source.release()
            self._source = None

    def _next(self) -> Any:
        if self._here:
            return self._here.popleft()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return _END

    def __next__(self) -> Any:
        while not self._here and self._source is not None:
            self._ask()
            self._take_up(self._coming[0].wait())
        value = self._next()
        if value is _END:
            raise StopIteration
        return value

    async def __anext__(self) -> Any:
        while not self._here and self._source is not None:
            self._ask()
            self._take_up(await self._coming[0])
        value = self._next()
        if value is _END:
            raise StopAsyncIteration
        return value

    def __iter__(self) -> RemoteIterator:
        return self

    def __aiter__(self) -> RemoteIterator:
        return self

    def close(self) -> None:
        """End the generator, and forget what has come; nothing happens if it has ended."""
        if self._source is not None:
            self._source.rpc_async().close()
        self._here.clear()
        self._let_go()

    def __enter__(self) -> RemoteIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_source(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Source:
    """Begin a generator, on the worker that runs it."""
    return Source(function(*args, **kwargs))
