"""How the ranks of a world find each other: a few exchanges through MPI, or whatever started them."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

from shardwise.backend.errors import LaunchError
from shardwise.collectives.control.handshake import KEY_BYTES
from shardwise.collectives.control.host import (
    Interface,
    choose_meeting_point,
    host_id,
    interfaces,
    own_address,
)
from shardwise.collectives.control.member import Member
from shardwise.collectives.control.plane import ControlPlane
from shardwise.collectives.environment import read_seconds

__all__ = ["Exchange", "connect_plane"]

_BACKLOG = 1024
_DEAD_AFTER = 15.0


class Exchange(Protocol):
    """What the ranks have to talk through before there is a control plane."""

    def broadcast(self, data: bytes | None, nbytes: int) -> bytes:
        """Give all ranks the `nbytes` of rank 0; None on the others."""

    def share(self, data: bytes) -> list[bytes]:
        """Give all ranks the bytes of all, in rank order."""


def connect_plane(exchange: Exchange, rank: int, size: int, environ: Mapping[str, str]) -> ControlPlane:
    """Make this rank's end of the control plane; all ranks do.

    Parameters
    ----------
    exchange : Exchange
    rank, size : int
    environ : mapping of str to str
        SHARDWISE_IFACE chooses the interface between hosts, SHARDWISE_DEAD_AFTER the seconds after which a
        host that does not answer is given up.

    Raises
    ------
    LaunchError
        If the ranks run different versions, or a host has no interface; alike on all ranks.
    """
    dead_after = read_seconds("SHARDWISE_DEAD_AFTER", environ, _DEAD_AFTER)
    key = exchange.broadcast(secrets.token_bytes(KEY_BYTES) if rank == 0 else None, KEY_BYTES)
    with contextlib.ExitStack() as sockets:
        local, path = _listen_locally()
        sockets.enter_context(local)
        mine = Member(host_id(), socket.gethostname(), os.getpid(), _version(), path)
        members = [Member.decode(data) for data in exchange.share(mine.encode())]
        _check_versions(members)
        listening = [local]
        if len({member.host for member in members}) > 1:
            away, members = _listen_between_hosts(
                exchange, rank, members, environ.get("SHARDWISE_IFACE"), sockets
            )
            listening.append(away)
        plane = ControlPlane(rank, members, key, listening, dead_after)
        sockets.pop_all()
    return plane


def _listen_locally() -> tuple[socket.socket, str]:
    """Listen for ranks of this host, at an address that needs no cleaning up on Linux."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if sys.platform == "linux":
        path = f"\0shardwise-{os.getpid()}-{secrets.token_hex(8)}"
    else:
        path = os.path.join(tempfile.mkdtemp(prefix="shardwise-"), "control")  # 0700
    listening.bind(path)
    listening.listen(_BACKLOG)
    return listening, path


def _listen_between_hosts(
    exchange: Exchange,
    rank: int,
    members: Sequence[Member],
    choice: str | None,
    sockets: contextlib.ExitStack,
) -> tuple[socket.socket, list[Member]]:
    """Listen for ranks of other hosts, at one address."""
    error = ""
    mine: list[Interface] = []
    try:
        mine = interfaces(choice)
    except LaunchError as raised:
        error = str(raised)
    found = [
        json.loads(data)
        for data in exchange.share(json.dumps({"error": error, "mine": [asdict(i) for i in mine]}).encode())
    ]
    _raise_alike([each["error"] for each in found])
    everyone = [[Interface(**interface) for interface in each["mine"]] for each in found]
    first = {member.host: at for at, member in reversed(list(enumerate(members)))}
    hosts = [everyone[0]] + [everyone[at] for host, at in first.items() if host != members[0].host]
    address = own_address(mine, choose_meeting_point(hosts))
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    sockets.enter_context(listening)
    try:
        listening.bind((address, 0))
        listening.listen(_BACKLOG)
    except OSError as raised:
        error = f"host {members[rank].hostname} cannot listen at {address}: {raised}. Set SHARDWISE_IFACE."
    port = 0 if error else listening.getsockname()[1]
    found = [json.loads(data) for data in exchange.share(json.dumps([error, address, port]).encode())]
    _raise_alike([each[0] for each in found])
    complete = [
        Member(member.host, member.hostname, member.pid, member.version, member.local, address, port)
        for member, (_, address, port) in zip(members, found, strict=True)
    ]
    return listening, complete


def _version() -> str:
    try:
        return importlib.metadata.version("shardwise")
    except importlib.metadata.PackageNotFoundError:  # run from a folder that was never installed
        return "of a version unknown"


def _check_versions(members: Sequence[Member]) -> None:
    for rank, member in enumerate(members):
        if member.version != members[0].version:
            raise LaunchError(
                f"rank {rank} on {member.hostname} runs shardwise {member.version}, rank 0 on "
                f"{members[0].hostname} runs {members[0].version}; install one version on all hosts."
            )


def _raise_alike(errors: Sequence[str]) -> None:
    for rank, error in enumerate(errors):
        if error:
            raise LaunchError(f"rank {rank}: {error}")
