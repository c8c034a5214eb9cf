"""Threads that run what users wrote: as many as were asked for, and one more for each that waits."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from shardwise.backend.errors import RpcError
from shardwise.rpc.future import hosted_thread

__all__ = ["Pool"]

_log = logging.getLogger(__name__)


class Pool:
    """Runs calls on threads; a thread that blocks in `Future.wait` is made up for by another.

    Parameters
    ----------
    name : str
        Of the threads.
    size : int
        Threads that run, not counting those that wait.
    most : int
        Threads in all.
    """

    def __init__(self, name: str, size: int, most: int) -> None:
        self._name = name
        self._size = size
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._idle = 0  # waiting for a job, or about to
        self._blocked = 0
        self._started = 0
        self._closed = False
        self._warned = False
        self._context = contextvars.copy_context()

    def submit(self, job: Callable[[], None]) -> None:
        """Have `job` run. From any thread; never waits."""
        self._jobs.put(job)
        # Both are read without the lock: a thread that turns idle meanwhile takes the job itself.
        if self._idle < self._jobs.qsize():
            self._grow()

    def is_mine(self) -> bool:
        """Say whether the caller runs on one of its threads."""
        return threading.current_thread() in self._threads

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return len(self._threads)

    @property
    def idle(self) -> int:
        """How many of them have nothing to do."""
        return self._idle

    @property
    def blocked(self) -> int:
        """How many of them wait for a Future."""
        return self._blocked

    @property
    def queued(self) -> int:
        """How many jobs have no thread yet."""
        return self._jobs.qsize()

    def block(self) -> None:
        """Note that the thread that calls is about to wait."""
        with self._lock:
            self._blocked += 1
        if self._jobs.qsize():
            self._grow()

    def unblock(self) -> None:
        """Note that it goes on."""
        with self._lock:
            self._blocked -= 1

    def close(self, timeout: float) -> bool:
        """End the threads once the jobs have ended; False if some still run after `timeout` seconds."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        deadline = time.monotonic() + timeout
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads if thread is not threading.current_thread())

    def _grow(self) -> None:
        with self._lock:
            running = len(self._threads) - self._blocked
            if self._closed or running >= self._size or self._idle >= self._jobs.qsize():
                return
            if len(self._threads) >= self._most:
                self._warn()
                return
            self._started += 1
            thread = threading.Thread(
                target=self._work,
                name=f"{self._name}-{self._started}",
                daemon=True,
            )
            self._threads.add(thread)
        thread.start()

    def _warn(self) -> None:
        if not self._warned and self._blocked == len(self._threads):
            self._warned = True
            _log.warning(
                "all %d threads of %s wait for other calls, and no more are allowed; what comes now waits "
                "until one goes on. Raise max_threads of RpcBackendOptions, or nest calls less deeply.",
                self._most,
                self._name,
            )

    def _work(self) -> None:
        with hosted_thread(self):
            try:
                while self._stays():
                    job = self._jobs.get()
                    with self._lock:
                        self._idle -= 1
                    if job is None:
                        return
                    if self._jobs.qsize():  # whoever put it may have counted on this thread
                        self._grow()
                    try:
                        self._context.copy().run(job)
                    except BaseException:
                        _log.exception("a job of %s failed", self._name)
                    del job
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

    def _stays(self) -> bool:
        """Turn idle; False for one that made up for another, which goes on by now."""
        with self._lock:
            if len(self._threads) - self._blocked > self._size and not self._jobs.qsize():
                return False
            self._idle += 1
            return True


class IoThread:
    """The host of an io thread: it must not wait for what only it could bring."""

    def block(self) -> None:
        """Refuse."""
        raise RpcError(
            f"thread {threading.current_thread().name} must not wait for a Future, which it would have to "
            f"complete itself: it would wait for ever. Use then(), or wait on another thread."
        )

    def unblock(self) -> None:
        """Nothing: `block` has raised."""
