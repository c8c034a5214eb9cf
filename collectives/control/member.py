"""What every rank knows of every other from the start."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ["Member"]


@dataclass(frozen=True, slots=True)
class Member:
    """One rank, and where it is to be found.

    Attributes
    ----------
    host : str
        Equal for ranks that share memory and local sockets.
    hostname : str
    pid : int
    version : str
        Of the package.
    local : str
        Address of its unix socket.
    address : str
    port : int
        Of its TCP socket; empty and 0 where all ranks are on one host.
    """

    host: str
    hostname: str
    pid: int
    version: str
    local: str
    address: str = ""
    port: int = 0

    def encode(self) -> bytes:
        """Give it as JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> Member:
        """Undo `encode`."""
        return Member(**json.loads(data))
