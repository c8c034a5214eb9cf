"""The making of a group's channel, as the first entry of its lane."""

from __future__ import annotations

from collections.abc import Callable

from shardwise.collectives.pending import Pending
from shardwise.collectives.transport import Channel, Connection

__all__ = ["Connecting"]


class Connecting:
    """An entry that ends once the channel is there, or could not be made.

    Parameters
    ----------
    begin : callable
        Begins to make it.

    Attributes
    ----------
    channel : Channel or None
    error : Exception or None
        Why there is none.
    """

    def __init__(self, begin: Callable[[], Connection]) -> None:
        self.pending: Pending | None = None
        self.channel: Channel | None = None
        self.error: Exception | None = None
        self._begin = begin
        self._connection: Connection | None = None

    def issue(self) -> None:
        """Begin; a failure is kept."""
        try:
            self.pending = self._connection = self._begin()
        except Exception as error:
            self.error = error
        self.settle()  # what is behind may be issued at once

    def settle(self) -> bool:
        """Advance; True once it has ended, well or not."""
        if self._connection is None:
            return True
        try:
            if not self._connection.test():
                return False
            self.channel = self._connection.channel
        except Exception as error:
            self.error = error
        return True
