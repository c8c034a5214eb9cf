"""The launcher's end of the connection to one rank's supervisor, and what is known of that rank."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Mapping, Sequence

from shardwise.launch.failure import Ending, rank_list
from shardwise.launch.rank import LEAVE

__all__ = ["RankLink", "fold_stacks"]


class RankLink:
    """One rank, as its supervisor tells of it.

    Parameters
    ----------
    connection : socket.socket
        Just accepted; the link owns it.

    Attributes
    ----------
    rank : int or None
        None until the supervisor has said it.
    ended : bool
        Whether the process of the rank is gone.
    ending : Ending or None
        How it failed. Known before `ended` if Python could still tell: a rank that failed may be stuck at
        exit.
    stacks : list of str
        Lines of the stacks that it was asked for.
    wrote_traceback : bool
        Whether a traceback went to its stderr.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rank: int | None = None
        self.ended = False
        self.ending: Ending | None = None
        self.stacks: list[str] = []
        self.wrote_traceback = False
        self._unread = b""
        self._supervisor = 0
        self._open = True

    def receive(self) -> bool:
        """Read what the supervisor sent; False when it is gone."""
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._open = False
            if not self.ended and self.rank is not None:
                self.ended = True
                self.ending = self.ending or Ending(self.rank, time.monotonic(), 128 + signal.SIGKILL, "lost")
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._handle(json.loads(line))
            else:
                self.stacks.append(line.decode(errors="replace"))
        return True

    def welcome(self, streams: Sequence[int]) -> None:
        """Let the rank start, with the descriptors that become its 0, 1 and 2; closes them here."""
        with contextlib.suppress(OSError):  # it died; receive() will tell
            if streams:
                socket.send_fds(self.connection, [b"."], list(streams))
            else:
                self.connection.sendall(b".")
        for stream in streams:
            os.close(stream)

    def signal(self, number: int) -> None:
        """Send a signal to the rank."""
        self._order(number)

    def leave(self) -> None:
        """Let the supervisor end, and with it the rank, if that still runs."""
        self._order(LEAVE)

    def kill(self) -> None:
        """Kill a supervisor that did not leave; its rank goes with it."""
        if self._open and self._supervisor:
            with contextlib.suppress(OSError):  # it left just now
                os.kill(self._supervisor, signal.SIGKILL)

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        self.connection.close()

    def note_output(self, data: bytes) -> None:
        """Look for a traceback in what the rank printed."""
        if b"Traceback (most recent call last)" in data:
            self.wrote_traceback = True

    def _order(self, number: int) -> None:
        if self._open:
            with contextlib.suppress(OSError):  # it is gone; receive() will tell
                self.connection.sendall(struct.pack("B", number))

    def _handle(self, message: Mapping[str, object]) -> None:
        kind = message["kind"]
        if kind == "hello":
            self.rank, self._supervisor = _number(message, "rank"), _number(message, "pid")
            return
        assert self.rank is not None  # hello comes first
        moment = message.get("time")
        when = float(moment) if isinstance(moment, int | float) else time.monotonic()
        if kind == "exit":
            self.ended = True
            status = _number(message, "status")
            if self.ending is None and status < 0:
                self.ending = Ending(self.rank, when, 128 - status, "signal")
            elif self.ending is None and status > 0:
                self.ending = Ending(self.rank, when, status, "exit")
        elif kind == "exiting":
            if code := _number(message, "code"):
                self.ending = Ending(self.rank, when, code, "exiting", text=str(message["text"]))
        else:
            self.ending = Ending(
                self.rank,
                when,
                128 + signal.SIGINT if kind == "interrupted" else 1,
                str(kind),
                type=str(message.get("type", "")),
                summary=str(message.get("summary", "")),
                text=str(message["text"]),
                places=json.dumps(message.get("places")),
            )


def fold_stacks(stacks: Mapping[int, Sequence[str]]) -> str:
    """Put the stacks of ranks together, those at the same place once.

    Parameters
    ----------
    stacks : mapping
        Of each rank, the lines that faulthandler wrote.

    Returns
    -------
    str
        Without the frames that only run the script, and without thread numbers.
    """
    groups: dict[str, list[int]] = {}
    for rank in sorted(stacks):
        kept = [
            re.sub(r"0x[0-9a-f]+ ", "", line)
            for line in stacks[rank]
            if not re.search(r"launch/rank\.py\", line|<frozen runpy>", line)
        ]
        groups.setdefault("\n".join(kept) or "  (it did not answer)", []).append(rank)
    return "\n".join(f"{rank_list(ranks)}:\n{text}" for text, ranks in groups.items())


def _number(message: Mapping[str, object], name: str) -> int:
    value = message[name]
    if not isinstance(value, int):
        raise TypeError(f"a rank's supervisor sent {name} = {value!r}, not a number")
    return value
