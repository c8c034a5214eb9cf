"""Put the output of n ranks on one screen, line by line, each line with its rank."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol, TextIO

__all__ = ["ByteSink", "Channel", "Screen", "StreamName", "TextSink"]

StreamName = Literal["stdout", "stderr"]

_COLOURS = ("36", "33", "32", "35", "34", "31", "96", "93", "92", "95", "94", "91")
_ERASE_LINE = b"\r\x1b[K"
# A rank that never ends its line must not fill the memory.
_LONGEST_LINE = 1 << 20
_KEPT = 1 << 13
"""Bytes that are kept of what is not shown, for the case that it turns out to matter."""


class ByteSink(Protocol):
    """Where output goes: a binary file, or something that looks like one."""

    def write(self, data: bytes, /) -> object:
        """Take all of `data`."""

    def flush(self) -> object:
        """Pass on what was taken."""


class TextSink:
    """A text file that takes bytes: ``sys.stdout`` as notebooks and tests replace it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, data: bytes, /) -> object:
        """Decode and write."""
        return self._file.write(data.decode(errors="replace"))

    def flush(self) -> object:
        """Flush the file."""
        return self._file.flush()


class Screen:
    """The launcher's own stdout and stderr, and the one unfinished line that may stand on a terminal.

    Parameters
    ----------
    sinks : mapping
        The binary files behind "stdout" and "stderr".
    terminals : frozenset
        Which of the two are terminals. If both are, they are taken to be the same one.
    prefixed : bool
        Whether lines begin with ``[r0] ``.
    shown : frozenset of int, optional
        The ranks whose output is shown; all by default.

    Notes
    -----
    On a terminal, rank 0 may leave a line unfinished: a progress bar, which rewrites its line with a carriage
    return, or a prompt. The screen keeps that line at the bottom, takes it away when another line has to be
    written, and puts it back below. Unfinished lines of other ranks wait until they are complete.
    """

    def __init__(
        self,
        sinks: Mapping[StreamName, ByteSink],
        terminals: frozenset[StreamName],
        *,
        prefixed: bool,
        shown: frozenset[int] | None = None,
    ) -> None:
        self.terminals = terminals
        self._sinks = sinks
        self._prefixed = prefixed
        self._shown = shown
        self._coloured = bool(terminals) and "NO_COLOR" not in os.environ
        self._live = b""
        self._live_stream: StreamName = "stdout"
        self._broken: set[StreamName] = set()

    def shows(self, rank: int) -> bool:
        """Whether what `rank` prints is shown."""
        return self._shown is None or rank in self._shown

    def prefix(self, rank: int, stream: StreamName) -> bytes:
        """What a line of `rank` begins with."""
        if not self._prefixed:
            return b""
        if self._coloured and stream in self.terminals:
            return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m[r{rank}]\x1b[0m ".encode()
        return f"[r{rank}] ".encode()

    def prefix_width(self, size: int) -> int:
        """Columns that the longest prefix of `size` ranks takes."""
        return len(f"[r{size - 1}] ") if self._prefixed else 0

    def write(self, stream: StreamName, data: bytes) -> None:
        """Write whole lines."""
        live = self._live if stream in self.terminals else b""
        if live:
            self._put(self._live_stream, _ERASE_LINE)
        self._put(stream, data)
        if live:
            self._put(self._live_stream, live)

    def say(self, text: str) -> None:
        """Write a message of the launcher itself to stderr, if that can be written to."""
        with contextlib.suppress(OSError):  # the exit code still tells
            self.write("stderr", text.encode(errors="replace") + b"\n")

    def show_live(self, stream: StreamName, text: bytes, prefix: bytes) -> None:
        """Make `text` the unfinished line at the bottom of the terminal; empty takes it away."""
        if not text and not self._live:
            return
        drawn = self._live
        shown = text.decode(errors="replace")
        if "\x1b" not in shown:
            # A line that wraps could not be erased again.
            room = (
                shutil.get_terminal_size().columns - 1 - (len(prefix) if not self._coloured else len("[r0] "))
            )
            shown = shown[: max(1, room)]
        self._live = prefix + shown.encode() if text else b""
        self._live_stream = stream
        if self._live != drawn:
            self._put(stream, _ERASE_LINE + self._live)

    def _put(self, stream: StreamName, data: bytes) -> None:
        """Write at once. What cannot be written to is told once, and left alone from then on."""
        if stream in self._broken:
            return
        try:
            self._sinks[stream].write(data)
            self._sinks[stream].flush()
        except BrokenPipeError:
            self._broken.add(stream)
            raise
        except OSError as error:
            self._broken.add(stream)
            raise OSError(error.errno, f"cannot write to {stream}: {error.strerror}") from error


class Channel:
    """One stream of one rank on its way to the screen.

    Parameters
    ----------
    screen : Screen
        Where the lines go.
    rank : int
        Whose they are.
    stream : {"stdout", "stderr"}
        Which of its streams.
    log : Path, optional
        A file that gets the bytes as they are.

    Attributes
    ----------
    unseen : bytes
        The last of what was not shown, since the screen leaves this rank out.
    """

    def __init__(self, screen: Screen, rank: int, stream: StreamName, log: Path | None = None) -> None:
        self._screen = screen
        self._stream = stream
        self._prefix = screen.prefix(rank, stream)
        self._on_terminal = stream in screen.terminals
        self._is_shown = screen.shows(rank)
        self.unseen = b""
        self._may_be_live = self._on_terminal and rank == 0 and self._is_shown
        self._partial = b""
        self._log = None if log is None else open(log, "wb")  # noqa: SIM115 (closed in close)

    def feed(self, data: bytes) -> None:
        """Take bytes as the rank wrote them; whole lines go to the screen in one piece."""
        if self._log is not None:
            self._log.write(data)
            self._log.flush()
        if not self._is_shown:
            self.unseen = (self.unseen + data)[-_KEPT:]
            return
        whole, newline, self._partial = (self._partial + data).rpartition(b"\n")
        if newline:
            if self._may_be_live:
                self._screen.show_live(self._stream, b"", b"")
            self._write_lines(whole.split(b"\n"))
        if self._may_be_live and b"\r" in self._partial:
            # What was overwritten is gone from the screen, and need not be kept.
            self._partial = b"\r" + _last_drawn(self._partial)
            self._screen.show_live(self._stream, self._partial[1:], self._prefix)
        if len(self._partial) > _LONGEST_LINE:
            self._write_lines([self._partial])
            self._partial = b""

    def rest(self) -> None:
        """Show an unfinished line that no carriage return will redraw, after a while: it may be a prompt."""
        if self._may_be_live and self._partial and b"\r" not in self._partial:
            self._screen.show_live(self._stream, self._partial, self._prefix)

    def close(self) -> None:
        """Write what is left of an unfinished line, ending it; safe to repeat."""
        if self._may_be_live:
            self._screen.show_live(self._stream, b"", b"")
        if self._partial:
            self._write_lines([self._partial])
            self._partial = b""
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.close()
            self._log = None

    def _write_lines(self, lines: list[bytes]) -> None:
        if self._on_terminal:
            lines = [_last_drawn(line) if b"\r" in line else line for line in lines]
        self._screen.write(self._stream, b"".join(self._prefix + line + b"\n" for line in lines))


def _last_drawn(line: bytes) -> bytes:
    """What a terminal would show of a line that was rewritten with carriage returns."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
