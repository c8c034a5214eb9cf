"""Which call a thread is serving, and how deep it is nested."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["DEEPEST", "Link", "current_link"]

DEEPEST = 256
"""Calls that may be nested; deeper ones are taken for an endless recursion."""


@dataclass(frozen=True, slots=True)
class Link:
    """A place in a chain of nested calls.

    Attributes
    ----------
    chain : int
        Of the call at the top: its worker << 48 | a counter there.
    depth : int
        1 for that call.
    """

    chain: int
    depth: int


current_link: ContextVar[Link | None] = ContextVar("shardwise_rpc_link", default=None)
"""Of the call that this context serves; None at the top."""
