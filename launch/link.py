"""The launcher's end of the connection to one rank's supervisor, and what is known of that rank."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence

from shardwise.collectives.rank_list import rank_list
from shardwise.launch.failure import Ending
from shardwise.launch.output import StreamName
from shardwise.launch.rank import PLACED
from shardwise.launch.uplink import LEAVE, Frames, frame

__all__ = ["RankLink", "fold_stacks", "place_ranks"]


class RankLink:
    """One rank, as its supervisor tells of it.

    Parameters
    ----------
    connection : socket.socket
        Just accepted; the link owns it.

    Attributes
    ----------
    remote : bool
        Whether the rank runs on another host, from where its streams come as frames.
    rank : int or None
        None until the supervisor has said it.
    host : str
        Which host it runs on, name first.
    port : int or None
        One that is free there, if it is the first rank of a job on several hosts.
    output : list
        What it wrote, stream and bytes, until somebody takes it.
    taken : int
        Bytes of input that it took.
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

    def __init__(self, connection: socket.socket, *, remote: bool = False) -> None:
        self.connection = connection
        self.remote = remote
        self.rank: int | None = None
        self.host = ""
        self.port: int | None = None
        self.output: list[tuple[StreamName, bytes]] = []
        self.taken = 0
        self.ended = False
        self.ending: Ending | None = None
        self.stacks: list[str] = []
        self.wrote_traceback = False
        self._frames = Frames()
        self._unread = b""
        self._supervisor = 0
        self._open = True

    def receive(self) -> bool:
        """Read what the supervisor sent; False when it is gone."""
        kind = "lost"
        try:
            data = self.connection.recv(1 << 16)
        except OSError as error:
            data = b""
            kind = "lost" if error.errno == errno.ECONNRESET else "unreachable"
        if not data:
            self._open = False
            if not self.ended and self.rank is not None:
                self.ended = True
                here = time.monotonic()
                self.ending = self.ending or Ending(
                    self.rank, here, 128 + signal.SIGKILL, kind, text=self.host.partition("/")[0]
                )
            return False
        for letter, payload in self._frames.feed(data):
            if letter == b"r":
                self._take_report(payload)
            elif letter in (b"o", b"e"):
                self.output.append(("stdout" if letter == b"o" else "stderr", payload))
            elif letter == b"a":
                self.taken += int.from_bytes(payload, "big")
        return True

    def welcome(self, environment: Mapping[str, str], streams: Sequence[int]) -> None:
        """Let the rank start, with variables and with what becomes its 0, 1 and 2; closes these here."""
        said = frame(b"w", json.dumps({"environment": dict(environment), "pumped": self.remote}).encode())
        with contextlib.suppress(OSError):  # it died; receive() will tell
            if streams:
                socket.send_fds(self.connection, [said], list(streams))
            else:
                self.connection.sendall(said)
        for stream in streams:
            os.close(stream)

    def send_input(self, data: bytes) -> None:
        """Send what a rank on another host shall read; nothing for the end."""
        self._send(frame(b"i", data))

    def signal(self, number: int) -> None:
        """Send a signal to the rank."""
        self._order(number)

    def leave(self) -> None:
        """Let the supervisor end, and with it the rank, if that still runs."""
        self._order(LEAVE)

    def kill(self) -> None:
        """Kill a supervisor on this host that did not leave; its rank goes with it."""
        if self._open and self._supervisor and not self.remote:
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
        self._send(frame(b"s", bytes([number])))

    def _send(self, data: bytes) -> None:
        if self._open:
            with contextlib.suppress(OSError):  # it is gone; receive() will tell
                self.connection.sendall(data)

    def _take_report(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self._handle(json.loads(line))
            else:
                self.stacks.append(line.decode(errors="replace"))

    def _handle(self, message: Mapping[str, object]) -> None:
        kind = message["kind"]
        if kind == "hello":
            self.rank, self._supervisor = _number(message, "rank"), _number(message, "pid")
            self.host = str(message["host"])
            self.port = _number(message, "port") if "port" in message else None
            return
        assert self.rank is not None  # hello comes first
        moment = message.get("time")
        # Clocks of other hosts began at other times.
        told = not self.remote and isinstance(moment, int | float)
        when = float(str(moment)) if told else time.monotonic()
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
                bases=tuple(str(message.get("bases", "")).split()),
            )


def place_ranks(links: Mapping[int, RankLink]) -> dict[int, dict[str, str]]:
    """Say of each rank where it is, once all have said on which host they run.

    Returns
    -------
    dict
        Of each rank, variables by the names of torchrun. Hosts are counted in the order of their first ranks.
    """
    hosts: dict[str, list[int]] = {}
    for rank in sorted(links):
        hosts.setdefault(links[rank].host, []).append(rank)
    placed: dict[int, dict[str, str]] = {}
    for node, ranks in enumerate(hosts.values()):
        for place, rank in enumerate(ranks):
            placed[rank] = {
                PLACED: "1",
                "LOCAL_RANK": str(place),
                "LOCAL_WORLD_SIZE": str(len(ranks)),
                "NODE_RANK": str(node),
                "GROUP_RANK": str(node),
            }
            port = links[0].port
            if port is not None:
                placed[rank]["MASTER_PORT"] = str(port)
    return placed


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
