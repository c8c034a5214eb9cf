"""Transport for a world of one: no MPI, no threads; every collective is its definition on one rank."""

from __future__ import annotations

from shardwise.collectives.thread.hub import Hub
from shardwise.collectives.thread.transport import ThreadsTransport

__all__ = ["alone_transport"]


def alone_transport() -> ThreadsTransport:
    """Give the transport of the only rank there is, which may send messages to itself."""
    return ThreadsTransport(Hub(1), 0, "alone")
