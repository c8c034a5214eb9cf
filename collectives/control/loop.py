"""One thread that waits for sockets and for moments, and calls what belongs to them."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

__all__ = ["READ", "WRITE", "Loop"]

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_JOIN = 2.0

_log = logging.getLogger(__name__)


class Loop:
    """Calls back on a daemon thread, which sleeps in the kernel while there is nothing to do.

    What it calls must be quick and never block. An exception in it is logged, and ends nothing.

    Parameters
    ----------
    name : str
        Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._selector.register(self._woken, READ, self._drain)
        self._soon: deque[Callable[[], None]] = deque()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._closing = False
        self._calling = threading.RLock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def is_current(self) -> bool:
        """Say whether the caller runs on the thread."""
        return threading.current_thread() is self._thread

    def call_soon(self, call: Callable[[], None]) -> None:
        """Have `call` called on the thread, behind what was given before. From any thread."""
        self._soon.append(call)
        if not self.is_current():
            with contextlib.suppress(OSError):  # it has been woken many times already, or is closed
                self._wake.send(b"\0")

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have `call` called after some time. On the thread, or before it is started."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._count), call))

    def watch(self, source: socket.socket, events: int, call: Callable[[int], None]) -> None:
        """Have `call` called with what happens, of `events`, on a socket; again to change the events."""
        if self._closing:
            return
        if source in self._selector.get_map():
            self._selector.modify(source, events, call)
        else:
            self._selector.register(source, events, call)

    def ignore(self, source: socket.socket) -> None:
        """Undo `watch`; nothing happens where there was none."""
        if not self._closing and source.fileno() >= 0 and source in self._selector.get_map():
            self._selector.unregister(source)

    def close(self) -> None:
        """End the thread, and wait for that."""
        self._closing = True
        self.call_soon(lambda: None)
        if self._thread.is_alive() and not self.is_current():
            self._thread.join(_JOIN)
        self.abandon()

    def abandon(self) -> None:
        """Close what the loop holds, in a fork too: there the thread does not exist."""
        self._closing = True
        self._calling = threading.RLock()  # in a fork the old one is held, for ever
        self._selector.close()
        self._woken.close()
        self._wake.close()

    def hold(self) -> None:
        """Wait until the thread is between two rounds of calls, and keep it there; for a fork.

        In the middle of a call it may have a socket that nobody else knows of yet: a fork would keep it open.
        """
        self._calling.acquire()

    def let_go(self) -> None:
        """Undo `hold`."""
        with contextlib.suppress(RuntimeError):  # the loop was made, or closed, meanwhile
            self._calling.release()

    def _run(self) -> None:
        while not self._closing:
            wait = None if not self._later else max(0.0, self._later[0][0] - time.monotonic())
            happened = self._selector.select(0 if self._soon else wait)
            with self._calling:
                for key, events in happened:
                    self._call(partial(key.data, events))
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._call(heapq.heappop(self._later)[2])
                for _ in range(len(self._soon)):
                    self._call(self._soon.popleft())

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            _log.exception("a call of %s failed", self._thread.name)

    def _drain(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
