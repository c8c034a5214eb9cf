"""Messages between pytest and its ranks: JSON objects, one a line, over a Unix socket."""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]


class Wire:
    """One end of a connection.

    Parameters
    ----------
    connection : socket.socket
        A connected stream socket. The wire owns it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._unread = b""

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def send(self, message: Message) -> bool:
        """Send one message; False if the other end is gone."""
        # A report may carry any user property; its text is all that can be shown of it anyway.
        line = json.dumps(message, default=str).encode() + b"\n"
        try:
            self._socket.sendall(line)
        except OSError:
            return False
        return True

    def receive(self) -> list[Message] | None:
        """Wait for at least one message; None when the other end is gone."""
        lines: list[bytes] = []
        while not lines:
            try:
                data = self._socket.recv(1 << 20)
            except OSError:
                return None
            if not data:
                return None
            *lines, self._unread = (self._unread + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the socket; safe to repeat."""
        self._socket.close()
