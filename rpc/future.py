"""`Future`: one result or one error, once; what every asynchronous call gives back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast

from shardwise.backend.errors import ArgumentError, FutureStateError, RpcError, RpcTimeoutError

__all__ = ["Future", "ThreadHost", "Waiter", "collect_all", "hosted_thread", "wait_all", "waiting_thread"]

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)


class ThreadHost(Protocol):
    """Whoever owns a thread and wants to hear when it blocks, as a pool does that must not run dry."""

    def block(self) -> None:
        """Note that the thread is about to block in `Future.wait`; raise if it must not."""

    def unblock(self) -> None:
        """Note that it runs again; called once for each `block` that did not raise."""


Waiter: TypeAlias = Callable[["Future[Any]", float | None], None]
"""``waiter(future, timeout)`` returns once the future is done, or that many seconds have gone by."""


class _Thread(threading.local):
    host: ThreadHost | None = None
    waiter: Waiter | None = None


_thread = _Thread()  # whose thread this is: a fact about the thread, that no copied context may carry away


@contextmanager
def hosted_thread(host: ThreadHost) -> Iterator[None]:
    """Tell `host` whenever this thread blocks in `Future.wait`, for a block of code."""
    before, _thread.host = _thread.host, host
    try:
        yield
    finally:
        _thread.host = before


class _Unread(Generic[T]):
    """What has arrived and was not looked at."""

    __slots__ = ("drop", "lock", "read")

    def __init__(self, read: Callable[[], T], drop: Callable[[Callable[[], T]], None] | None) -> None:
        self.read = read
        self.drop = drop
        self.lock = threading.RLock()


@contextmanager
def waiting_thread(waiter: Waiter) -> Iterator[None]:
    """Let this thread wait by `waiter` in a block of code, as a simulation does in its own time."""
    before, _thread.waiter = _thread.waiter, waiter
    try:
        yield
    finally:
        _thread.waiter = before


class Future(Generic[T]):
    """A result that is not there yet, or the error that came instead.

    Parameters
    ----------
    run : callable, optional
        ``run(task)`` calls ``task()`` in a thread that may run callbacks; by default the thread that
        completes the future does. An agent, whose thread must not run what users wrote, gives its pool.
    on_cancel : callable, optional
        Called once if `cancel` succeeds.

    Examples
    --------
    >>> future = Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(21)
    >>> doubled.wait()
    42
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_done",
        "_error",
        "_lock",
        "_on_cancel",
        "_read",
        "_run",
        "_value",
        "_waiters",
    )

    def __init__(
        self,
        run: Callable[[Callable[[], None]], None] | None = None,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._run = run
        self._on_cancel = on_cancel
        self._read: _Unread[T] | None = None
        self._callbacks: list[tuple[Callable[[Future[T]], object], bool]] = []
        self._waiters: list[threading.Lock] = []

    # ---- asking

    def done(self) -> bool:
        """Say whether there is a result or an error."""
        return self._done

    def cancelled(self) -> bool:
        """Say whether `cancel` ended it."""
        return self._done and self._read is None and isinstance(self._error, CancelledError)

    def value(self) -> T:
        """Return the result, or raise the error, of a future that is done.

        Raises
        ------
        FutureStateError
            If it is not done yet.
        """
        if not self._done:
            raise FutureStateError("value() of a future that is not done; call wait(), or use then()")
        return self._outcome()

    def wait(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error; any number of times, from any thread.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default until it is done. The future itself is not ended by it.

        Raises
        ------
        RpcTimeoutError
            If it is not done in time.
        """
        if not self._done:
            self._block(timeout)
        return self._outcome()

    result = wait

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return the error, or None if there is a result."""
        if not self._done:
            self._block(timeout)
        self._settle()
        return self._error

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()

            def end() -> None:
                if not ended.done():
                    ended.set_result(None)

            self.on_done(lambda _: loop.call_soon_threadsafe(end))
            yield from ended
        return self._outcome()

    # ---- chaining

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return the future of ``callback(self)``, which is called when this one is done, failed or not.

        It runs at once, in this thread, if the future is done already. What it raises becomes the error
        of the new future; a future that it returns is not waited for.
        """
        _check_callback("then", callback)
        child: Future[S] = Future(self._run)

        def follow(parent: Future[T]) -> None:
            try:
                result = callback(parent)
            except Exception as error:
                child.offer_exception(error)
            else:
                child.offer_result(result)

        self._attach(follow, False)
        return child

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call ``callback(self)`` when done, as `then` does; what it raises is only logged."""
        _check_callback("add_done_callback", callback)
        self._attach(callback, False)

    def on_done(self, callback: Callable[[Future[T]], object]) -> None:
        """Call ``callback(self)`` in the very thread that completes it: for code that never blocks."""
        self._attach(callback, True)

    # ---- completing

    def set_result(self, result: T) -> None:
        """Complete it with a result.

        Raises
        ------
        FutureStateError
            If it is done already.
        """
        if not self.offer_result(result):
            self._refuse()

    def set_exception(self, error: BaseException) -> None:
        """Complete it with an error, which `wait` will raise.

        Raises
        ------
        FutureStateError
            If it is done already.
        ArgumentError
            If `error` is not an exception.
        """
        if not isinstance(error, BaseException):
            raise ArgumentError(
                f"set_exception takes an exception, for example ValueError('...'); got {error!r}"
            )
        if not self.offer_exception(error):
            self._refuse()

    def cancel(self) -> bool:
        """End it, if it is not done: `wait` raises ``concurrent.futures.CancelledError`` from then on.

        Returns
        -------
        bool
            False if it was done already.
        """
        if not self._complete(None, CancelledError("the future was cancelled")):
            return False
        on_cancel, self._on_cancel = self._on_cancel, None
        if on_cancel is not None:
            on_cancel()
        return True

    def offer_result(self, result: T) -> bool:
        """Complete it with a result unless it is done, as after a time-out; say whether this did it."""
        return self._complete(result, None)

    def offer_exception(self, error: BaseException) -> bool:
        """Complete it with an error unless it is done; say whether this did it."""
        return self._complete(None, error)

    def arrive(self, read: Callable[[], T], drop: Callable[[Callable[[], T]], None] | None = None) -> bool:
        """Complete it with what `read` gives or raises, unless it is done; say whether this did it.

        The first thread that asks calls `read`, so that an answer is unpickled by whoever waits for it, with
        no other thread between. What is called back, in whatever thread otherwise, is called by `run` then.
        If nobody ever asks, ``drop(read)`` is called in the end, by a finaliser.
        """
        with self._lock:
            if self._done:
                return False
            self._read = _Unread(read, drop)
            self._done = True
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
        for waiter in waiters:
            waiter.release()
        for callback, _ in callbacks:
            if self._run is None:
                self._call(callback)
            else:
                self._hand_over(self._run, callback)
        return True

    def _settle(self) -> None:
        """Read what has arrived, if nobody has."""
        unread = self._read
        if unread is None:
            return
        with unread.lock:
            if self._read is None:
                return
            try:
                self._value = unread.read()
            except BaseException as error:
                self._error = error
            self._read = None

    def _complete(self, value: T | None, error: BaseException | None) -> bool:
        with self._lock:
            if self._done:
                return False
            self._value, self._error = value, error
            self._done = True
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
        for waiter in waiters:
            waiter.release()
        for callback, inline in callbacks:
            if inline or self._run is None:
                self._call(callback)
            else:
                self._hand_over(self._run, callback)
        return True

    def _hand_over(
        self, run: Callable[[Callable[[], None]], None], callback: Callable[[Future[T]], object]
    ) -> None:
        run(lambda: self._call(callback))

    def _refuse(self) -> NoReturn:
        state = (
            "was cancelled" if self.cancelled() else "failed" if self._error is not None else "has a result"
        )
        raise FutureStateError(f"Future can only be marked completed once; it {state} already")

    # ---- inside

    def _attach(self, callback: Callable[[Future[T]], object], inline: bool) -> None:
        with self._lock:
            if not self._done:
                self._callbacks.append((callback, inline))
                return
        self._call(callback)

    def _call(self, callback: Callable[[Future[T]], object]) -> None:
        try:
            callback(self)
        except Exception:
            _log.exception("a callback of a future failed: %r", callback)

    def _block(self, timeout: float | None) -> None:
        """Block until done; whoever owns the thread hears of it."""
        if _thread.waiter is not None:
            _thread.waiter(self, timeout)
            if not self._done:
                raise RpcTimeoutError(_overdue(timeout))
            return
        host = _thread.host
        if host is not None:
            host.block()
        try:
            waiter = threading.Lock()
            waiter.acquire()
            with self._lock:
                if self._done:
                    return
                self._waiters.append(waiter)
            if timeout is None:
                waiter.acquire()
            elif not waiter.acquire(timeout=max(0.0, timeout)) and not self._done:
                with self._lock:
                    if waiter in self._waiters:
                        self._waiters.remove(waiter)
                raise RpcTimeoutError(_overdue(timeout))
        finally:
            if host is not None:
                host.unblock()

    def _outcome(self) -> T:
        if self._read is not None:
            self._settle()
        if self._error is not None:
            # Each waiter would add its frames to the traceback of the one error object.
            raise self._error.with_traceback(None)
        return cast(T, self._value)

    def __del__(self) -> None:
        unread = self._read
        if unread is not None and unread.drop is not None:
            unread.drop(unread.read)

    def __reduce__(self) -> NoReturn:
        raise RpcError(
            "cannot pickle a Future: it belongs to this process. Send its value, or let the function return "
            "it under @rpc.functions.async_execution"
        )

    def __repr__(self) -> str:
        if not self._done:
            return "Future(pending)"
        if self._read is not None:
            return "Future(arrived)"
        return f"Future({'cancelled' if self.cancelled() else repr(self._error or self._value)})"


def collect_all(futures: Iterable[Future[T]]) -> Future[list[Future[T]]]:
    """Return the future of the list of all, done; it fails as soon as one of them does.

    Examples
    --------
    >>> first, second = Future(), Future()
    >>> both = collect_all([first, second])
    >>> second.set_result(2); first.set_result(1)
    >>> [each.value() for each in both.wait()]
    [1, 2]
    """
    each = list(futures)
    for i, future in enumerate(each):
        if not isinstance(future, Future):
            raise ArgumentError(f"collect_all takes futures; element {i} is a {type(future).__name__}")
    together: Future[list[Future[T]]] = Future(each[0]._run if each else None)
    if not each:
        together.set_result([])
        return together
    lock = threading.Lock()
    missing = len(each)

    def count(future: Future[T]) -> None:
        nonlocal missing
        error = future.exception()
        if error is not None:
            together.offer_exception(error)
            return
        with lock:
            missing -= 1
            last = missing == 0
        if last:
            together.offer_result(each)

    for future in each:
        future.on_done(count)
    return together


def wait_all(futures: Iterable[Future[T]], timeout: float | None = None) -> list[T]:
    """Return the results of all, in their order; raise the first error without waiting for the rest.

    Raises
    ------
    RpcTimeoutError
        If one is not done within `timeout` seconds.
    """
    return [future.value() for future in collect_all(futures).wait(timeout)]


def _overdue(timeout: float | None) -> str:
    return f"the future was not done within {timeout:g} s; wait longer, or give the call a time-out"


def _check_callback(name: str, callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"{name} takes a function of the completed future; got {callback!r}")
