"""Tags of messages: what the user says, and what the wire carries."""

from __future__ import annotations

import operator
from typing import Literal, TypeAlias

from shardwise.backend.errors import CollectiveError

__all__ = ["Kind", "user_tag", "wire_tag"]

Kind: TypeAlias = Literal["array", "object", "gradient", "barrier"]

_KINDS = {"array": 0, "object": 1, "gradient": 2, "barrier": 3}
_PLACES = 4  # for the kind, below the tag
_TAGS = 1 << 20  # MPIs carry 29 bits and more


def wire_tag(tag: int, kind: Kind, op: str, rank: int) -> int:
    """Give the tag that a transport carries: messages of two kinds with one tag do not meet.

    Raises
    ------
    CollectiveError
        If the tag is no number, or out of range.
    """
    try:
        number = operator.index(tag)
    except TypeError:
        raise CollectiveError(
            f"{op} on rank {rank}: tag is {type(tag).__name__}, wanted a number. Messages take no group, as "
            f"they do in PyTorch: ranks are those of the world, and tag comes in its place."
        ) from None
    if not 0 <= number < _TAGS:
        raise CollectiveError(f"{op} on rank {rank}: tag={tag}; choose one from 0 to {_TAGS - 1}.")
    return _PLACES * number + _KINDS[kind]


def user_tag(wire: int) -> int:
    """Give the tag that the user said."""
    return wire // _PLACES
