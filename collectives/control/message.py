"""What handlers of the control plane get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from shardwise.collectives.control.frame import JSON

__all__ = ["Handler", "Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the control plane.

    Attributes
    ----------
    src : int
        Global rank that sent it.
    kind : str
        What `send` or `ask` was given.
    body : mapping
        JSON values; tuples have become lists.
    data : bytearray
        Bytes that came along.
    fds : tuple of int
        File descriptors that came along: whoever handles the message owns them, and closes them.
    token : int
        For `answer`; 0 if nobody waits for one.
    """

    src: int
    kind: str
    body: Mapping[str, JSON]
    data: bytearray
    fds: tuple[int, ...] = ()
    token: int = 0


Handler: TypeAlias = Callable[[Message], None]
