"""A supervisor's connection to the launcher: how it comes about, and what travels on it.

::

    up    r  lines: how the rank failed or ended (JSON), and stacks that it was asked for
          o e  what it wrote to stdout, stderr          (from other hosts)
          a  how many bytes of input it took (u32)      (from other hosts)
    down  w  welcome: variables for the rank, and how its streams travel (JSON)
          s  signals for the rank, a byte each; 0: the supervisor may end
          i  input of rank 0; no bytes: its end         (to other hosts)

Each frame is its letter, the length of its payload (u32) and the payload. On the launcher's host the
connection is a unix socket and the streams themselves travel with the welcome; from other hosts it is TCP, on
which both sides prove that they know the key of the job, and the supervisor pumps the streams.

Loaded by path, like `rank.py`, with nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

__all__ = ["LEAVE", "LOST_SECONDS", "Frames", "Link", "connect", "frame", "this_host", "watch"]

LEAVE = 0
"""What the launcher sends instead of a signal number when a supervisor may end."""

LOST_SECONDS = 10
"""After so long without an answer, the other side of a TCP connection counts as lost."""

_CONNECT_SECONDS = 10.0
_HEADER = struct.Struct("!cI")
_BLOCK = 1 << 16


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """Write one frame."""
    return _HEADER.pack(kind, len(payload)) + payload


class Frames:
    """Cuts what comes on a connection into frames."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Give the frames, letter and payload, that are complete with this."""
        self._unread += data
        found = []
        while len(self._unread) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._unread)
            end = _HEADER.size + length
            if len(self._unread) < end:
                break
            found.append((kind, self._unread[_HEADER.size : end]))
            self._unread = self._unread[end:]
        return found


def this_host() -> str:
    """Say which host this is: the running kernel, its name, and the network that this process sees."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        network = os.stat("/proc/self/ns/net").st_ino
    except OSError:  # not Linux
        boot, network = "", 0
    return f"{socket.gethostname()}/{boot}/{network}"


def watch(connection: socket.socket) -> None:
    """Let a TCP connection fail within about ten seconds when nothing comes from the other side any more."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 4),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", (LOST_SECONDS - 4) // 2),
        ("TCP_USER_TIMEOUT", 1000 * LOST_SECONDS),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Link:
    """A supervisor's connection to the launcher.

    Parameters
    ----------
    connection : socket.socket
    path : str
        Of the unix socket; empty over TCP.

    Attributes
    ----------
    lost : bool
        Whether the launcher has gone without a word, or cannot be reached any more.
    """

    def __init__(self, connection: socket.socket, path: str) -> None:
        self.connection = connection
        self.path = path
        self._frames = Frames()
        self._early: list[tuple[bytes, bytes]] = []
        self.lost = False

    def send(self, kind: bytes, payload: bytes) -> None:
        with contextlib.suppress(OSError):  # the launcher is gone; reading will tell
            self.connection.sendall(frame(kind, payload))

    def welcome(self) -> tuple[Mapping[str, str], list[int], bool]:
        """Wait until the rank may start: variables for it, its streams, and whether they are to be pumped."""
        streams: list[int] = []
        while True:
            if self.path:
                data, passed, _, _ = socket.recv_fds(self.connection, _BLOCK, 3)
                streams += passed
            else:
                data = self.connection.recv(_BLOCK)
            if not data:
                raise SystemExit(1)  # the launcher has gone, or wants no more
            (kind, payload), *self._early = self._frames.feed(data) or [(b"", b"")]
            if kind == b"w":
                said = json.loads(payload)
                return said["environment"], streams, said["pumped"]
            if kind:
                raise SystemExit(1)  # an order to end, before anything has begun

    def heard_early(self) -> bool:
        """Say whether something came with the welcome that `receive` has not given yet."""
        return bool(self._early)

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """Give the next frames, letter and payload; None if the launcher is gone."""
        if self._early:
            early, self._early = self._early, []
            return early
        try:
            data = self.connection.recv(_BLOCK)
        except OSError:
            data = b""
        self.lost = not data
        return self._frames.feed(data) if data else None


def connect(control: str, key: str, rank: int, load: Callable[..., ModuleType]) -> Link:
    """Connect to the launcher and say who this is.

    Parameters
    ----------
    control : str
        As the launcher gave it: JSON with its host, the path of its unix socket, and perhaps a TCP address.
    key : str
        Of the job, in hexadecimal; empty where all ranks are on the launcher's host.
    rank : int
    load : callable
        Imports a file of the package by its path.
    """
    where = json.loads(control)
    here = this_host()
    if where["host"] == here or not where["tcp"]:
        connection, path = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), str(where["unix"])
        connection.connect(path)
    else:
        connection, path = _dial(where["tcp"], where["host"].partition("/")[0], key, rank, load), ""
    hello = {"kind": "hello", "rank": rank, "pid": os.getpid(), "host": here}
    if rank == 0 and not path:
        hello["port"] = _free_port()
    link = Link(connection, path)
    link.send(b"r", json.dumps(hello).encode() + b"\n")
    return link


def _dial(
    address: Sequence[object], launcher: str, key: str, rank: int, load: Callable[..., ModuleType]
) -> socket.socket:
    host, port = str(address[0]), int(str(address[1]))
    handshake = load("collectives", "control", "handshake.py")
    try:
        connection = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        watch(connection)
        handshake.shake_hands(connection, bytes.fromhex(key), f"supervisor {rank}", dials=True)
    except (OSError, handshake.HandshakeError) as error:
        why = str(error) or "it does not know the key of this job"
        sys.stderr.write(
            f"shardwise run: rank {rank} on {socket.gethostname()} cannot reach the launcher on {launcher} "
            f"at {host}:{port}: {why}. Name the network between the hosts with --iface\n"
        )
        raise SystemExit(1) from error
    connection.settimeout(None)
    return connection


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port
