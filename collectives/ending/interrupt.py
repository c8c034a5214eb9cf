"""Ctrl-C that comes between two steps which belong together, and is held back until they are done.

Python calls the handler of a signal between any two steps of the main thread. Where an operation has been
handed to MPI or to the memory that ranks share, and is not yet noted here, an exception would lose it: the
other ranks would go on with it, and this one with the next. Waits can be interrupted at once.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType

__all__ = ["Interrupts"]

_AGAIN = 500e-6  # seconds after which an interrupt that came within such steps is tried again


class Interrupts:
    """Holds back SIGINT while the main thread is within one of some functions, for as long as it is.

    Nothing is noted when they are called: the handler looks which functions it came into. So calls cost no
    more, and what handles other signals by raising is not held back.

    Parameters
    ----------
    codes : iterable of code
        Of the functions, none of which waits for other ranks.
    go_on : callable
        Called in a thread when an interrupt comes through: others may wait for this rank's part in what it
        will not wait for any more.

    Attributes
    ----------
    is_held : bool
        Whether one has come and is held back; it comes through as soon as it may.
    """

    def __init__(self, codes: Iterable[CodeType], go_on: Callable[[], None]) -> None:
        self._codes = frozenset(codes)
        self._go_on = go_on
        self._before: Callable[[int, FrameType | None], object] | None = None
        self.is_held = False
        self._retrying = False

    def install(self) -> None:
        """Take over what handles SIGINT, if it is written in Python; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._take)

    def close(self) -> None:
        """Give it back, unless somebody has taken it over since."""
        if threading.current_thread() is not threading.main_thread() or self._before is None:
            return
        if signal.getsignal(signal.SIGINT) == self._take:
            signal.signal(signal.SIGINT, self._before)

    def _take(self, number: int, frame: FrameType | None) -> None:
        inside = frame
        while inside is not None:
            if inside.f_code in self._codes:
                self.is_held = True
                if not self._retrying:
                    self._retrying = True
                    # Not by `threading`, whose locks the main thread may hold here.
                    _thread.start_new_thread(self._again, (number,))
                return
            inside = inside.f_back
        self.is_held = False
        _thread.start_new_thread(self._go_on, ())
        if self._before is not None:
            self._before(number, frame)

    def _again(self, number: int) -> None:
        time.sleep(_AGAIN)
        self._retrying = False
        main = threading.main_thread().ident
        if self.is_held and main is not None:
            signal.pthread_kill(main, number)  # which also ends a sleep that has begun meanwhile
