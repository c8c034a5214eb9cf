"""Signals that say: this process will be ended soon. They are noted, and kill nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType

__all__ = ["Notice"]


class Notice:
    """Whether this rank was told that its job is to end.

    Attributes
    ----------
    came : bool
    """

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Callable[[int, FrameType | None], object] | int] = {}

    def watch(self, signals: Iterable[int]) -> None:
        """Note these signals from now on; what handled them before is called too. Safe to repeat.

        Does nothing in a thread that is not the main one: no other can take signals. A signal that compiled
        code has taken, as faulthandler does, is left to it, since nothing could give it back.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in signals:
            if number not in self._before and signal.getsignal(number) is not None:
                before = signal.signal(number, self._take)
                self._before[number] = signal.SIG_DFL if before is None else before

    def close(self) -> None:
        """Give the signals back, as far as nobody has taken them over since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._take:
                signal.signal(number, before)
        self._before.clear()

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
