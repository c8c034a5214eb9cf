"""Where a worker listens, and how others dial it."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import tempfile
from dataclasses import dataclass

from shardwise.collectives.control.connection import harden, is_own_user

__all__ = ["Address", "dial", "listen"]

_BACKLOG = 1024
_DEAD_AFTER = 15.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where one worker is to be found.

    Attributes
    ----------
    host : str
        Equal for workers that share memory and local sockets.
    hostname : str
    pid : int
    local : str
        Of its unix socket.
    address : str
    port : int
        Of its TCP socket; empty and 0 where all workers are on one host.
    """

    host: str
    hostname: str
    pid: int
    local: str
    address: str = ""
    port: int = 0


def listen(host: str, hostname: str, address: str) -> tuple[list[socket.socket], Address]:
    """Listen for workers of this host and, at `address` if it is not empty, for those of others.

    Parameters
    ----------
    host, hostname : str
    address : str
        Of the one interface that the control plane uses too.

    Returns
    -------
    list of socket.socket
    Address
    """
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if sys.platform == "linux":
        path = f"\0shardwise-rpc-{os.getpid()}-{secrets.token_hex(8)}"  # abstract: gone with the process
    else:
        path = os.path.join(tempfile.mkdtemp(prefix="shardwise-"), "rpc")  # 0700
    local.bind(path)
    local.listen(_BACKLOG)
    if not address:
        return [local], Address(host, hostname, os.getpid(), path)
    away = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        away.bind((address, 0))
        away.listen(_BACKLOG)
    except OSError:
        away.close()
        local.close()
        raise
    port: int = away.getsockname()[1]
    return [local, away], Address(host, hostname, os.getpid(), path, address, port)


def dial(there: Address, here: Address) -> tuple[socket.socket, bool]:
    """Begin to connect, without waiting.

    Returns
    -------
    socket.socket
    bool
        Whether the kernel is still at it.

    Raises
    ------
    OSError
        If it cannot be begun; EAGAIN where too many call at once.
    """
    local = there.host == here.host
    family = socket.AF_UNIX if local else socket.AF_INET6 if ":" in there.address else socket.AF_INET
    dialling = socket.socket(family, socket.SOCK_STREAM)
    try:
        dialling.setblocking(False)
        harden(dialling, _DEAD_AFTER)
        code = dialling.connect_ex(there.local if local else (there.address, there.port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        if code == 0 and not is_own_user(dialling):
            raise OSError(errno.EPERM, "its socket belongs to another user")
    except OSError:
        dialling.close()
        raise
    return dialling, code != 0
