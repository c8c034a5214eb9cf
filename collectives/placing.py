"""What a rank lays into the results of the others: the large parts of a collective, each moved once.

A transport whose ranks can write into each other's results is a `Placer`. It makes the results itself, in
memory that all can reach, and every rank copies its parts straight to where they belong, whatever their
strides. Where a rank has no such memory left, all of them go the ordinary way; they see that when they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.collectives.pending import Pending

__all__ = ["Lay", "Piece", "Placer", "Placing"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of this rank's array, and where it belongs in the result of a member."""

    member: int
    source: Array
    index: tuple[slice, ...]


Lay: TypeAlias = Callable[[Sequence[Piece], Sequence[Array]], None]
"""Copies pieces to where they belong in the results of the members."""


@dataclass(slots=True)
class Placing:
    """A collective as its parts.

    Attributes
    ----------
    kind : str
        Name of the collective.
    nbytes : int
        Of the largest result, alike on all ranks.
    rank : int
        Of this process in the group.
    dtype : dtype
    shapes : sequence of tuple of int
        Of the result of each member.
    pieces : sequence of Piece
        What this rank lays.
    packs : bool
        Whether the ordinary way has to pack or to unpack parts.
    wants : bool
        Whether the result may lie in memory of the transport's choice: not if the user gave an array.
    ordinary : callable
        Begins the collective without any of this.
    out : array or None
        The result, if it was laid.
    """

    kind: str
    nbytes: int
    rank: int
    dtype: np.dtype[Any]
    shapes: Sequence[Shape]
    pieces: Sequence[Piece]
    packs: bool
    wants: bool
    ordinary: Callable[[Any], Pending]
    out: Array | None = None


@runtime_checkable
class Placer(Protocol):
    """A channel whose ranks can write into each other's results."""

    def place(self, placing: Placing) -> Pending:
        """Lay all pieces where they belong, and note the result; or begin the ordinary way."""
