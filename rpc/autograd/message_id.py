"""The name of a message in a context: its place in the program, the same in every run.

It is the path to the call that it belongs to: ``(3, 1)`` is the first call that was made while serving the
third of the program, and ``(3, 1, 0)`` is the answer to it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

__all__ = ["Chain", "MessageId", "answer_to", "current_chain"]

MessageId: TypeAlias = tuple[int, ...]


@dataclass(slots=True)
class Chain:
    """What runs in a context: the program itself, or a call that serves it.

    Attributes
    ----------
    context : int
    path : MessageId
        Of the call that is served; empty for the program.
    """

    context: int
    path: MessageId = ()
    _calls: count[int] = field(default_factory=lambda: count(1))

    def next_message(self) -> MessageId:
        """Name the next call that is made from here."""
        return (*self.path, next(self._calls))


def answer_to(message: MessageId) -> MessageId:
    """Name the answer to a call."""
    return (*message, 0)


current_chain: ContextVar[Chain | None] = ContextVar("shardwise_rpc_chain", default=None)
"""What runs in this thread, if that is in a context."""
