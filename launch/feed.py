"""The launcher's standard input, for a rank 0 that runs on another host."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

__all__ = ["Feed"]

_BLOCK = 1 << 14
_AHEAD = 1 << 16
"""Bytes that may be on the way: a rank that does not read must not fill the memory of its supervisor."""


class Feed:
    """Reads the standard input of this process and sends it on, no faster than it is taken.

    Parameters
    ----------
    selector : selectors.BaseSelector
        Whose events are functions to call.
    send : callable
        Sends bytes; none at the end.
    """

    def __init__(self, selector: selectors.BaseSelector, send: Callable[[bytes], None]) -> None:
        self._selector = selector
        self._send = send
        self._sent = self._taken = 0
        self._listening = False
        self._file = -1
        try:
            # A copy, since an epoll refuses files on a disk, which can be read at any time.
            self._copy = os.dup(0)
        except OSError:  # it is closed
            self._copy = -1
        if self._copy < 0 or _is_in_the_background(self._copy):
            send(b"")
            self.close()
            return
        self.go_on(0)

    def go_on(self, taken: int) -> None:
        """Note how many bytes have arrived, and read on if there is room for more."""
        self._taken = taken
        while self._copy >= 0 and not self._listening and self._has_room():
            try:
                self._selector.register(self._copy, selectors.EVENT_READ, self._read)
                self._listening = True
            except PermissionError:
                self._read()

    def close(self) -> None:
        """Stop reading; safe to repeat. The selector is still open."""
        self._pause()
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1

    def _read(self) -> None:
        try:
            data = os.read(self._copy, _BLOCK)
        except OSError:
            data = b""
        self._sent += len(data)
        self._send(data)
        if not data:
            self.close()
        elif not self._has_room():
            self._pause()

    def _has_room(self) -> bool:
        return self._sent - self._taken < _AHEAD

    def _pause(self) -> None:
        if self._listening:
            self._selector.unregister(self._copy)
            self._listening = False


def _is_in_the_background(file: int) -> bool:
    """Whether reading would stop this process, since the terminal listens to another one."""
    try:
        return os.isatty(file) and os.tcgetpgrp(file) != os.getpgrp()
    except OSError:  # it is not the terminal of this session, which nobody stops
        return False
