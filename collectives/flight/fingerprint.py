"""What one rank is about to call, in a few hundred bytes: compared with the others' before it is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives.rank_list import rank_list

__all__ = ["NBYTES", "Fingerprint", "disagreement"]

NBYTES = 1024
"""Of every fingerprint: what is longer is cut at the end, where the place is."""

_SHAPELESS = ("scatter", "gather", "all_to_all_single")  # where ranks may give different shapes


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A call of a collective.

    Attributes
    ----------
    op : str
    how : str, int or None
        The reduction, or the global rank that is special.
    dtype : str
    shape : tuple of int
    splits : tuple of tuples of int
        Sizes that the ranks have agreed on (one tuple), or what goes to and comes from each rank (two).
    source : str
        ``"path:line"``; the one thing that may differ.
    """

    op: str
    how: str | int | None
    dtype: str
    shape: tuple[int, ...]
    splits: tuple[tuple[int, ...], ...]
    source: str

    def encode(self) -> Array:
        """Give it as bytes, `NBYTES` of them."""
        source = self.source
        while True:
            said = [self.op, self.how, self.dtype, self.shape, self.splits, source]
            text = json.dumps(said, ensure_ascii=False).encode()
            if len(text) <= NBYTES:
                return np.frombuffer(text.ljust(NBYTES), np.uint8)
            if not source:  # of very many ranks: what is left says enough
                return Fingerprint(self.op, self.how, self.dtype, self.shape, (), "").encode()
            source = source[1 + (len(text) - NBYTES) // 4 :]  # a character has up to four bytes

    @staticmethod
    def decode(row: Array) -> Fingerprint:
        """Undo `encode`."""
        op, how, dtype, shape, splits, source = json.loads(row.tobytes())
        return Fingerprint(op, how, dtype, tuple(shape), tuple(tuple(each) for each in splits), source)

    def __str__(self) -> str:
        how = "" if self.how is None else f", {self.how!r}"
        splits = "".join(f", sizes {list(each)}" for each in self.splits)
        return f"{self.op}({self.dtype}{list(self.shape)}{how}{splits}) at {self.source}"

    def agreed(self) -> tuple[object, ...]:
        """Give what must be equal on all ranks."""
        return (
            self.op,
            self.how,
            self.dtype,
            *self._shape(),
            *(self.splits if len(self.splits) == 1 else ()),
        )

    def _shape(self) -> tuple[object, ...]:
        free = self.op.endswith("_object") or self.splits or self.op in _SHAPELESS
        return () if free else (self.shape,)


def disagreement(calls: Sequence[Fingerprint], ranks: Sequence[int]) -> str | None:
    """Say what ranks call that do not call the same.

    Parameters
    ----------
    calls : sequence of Fingerprint
        In the order of the group.
    ranks : sequence of int
        Their global ranks.

    Returns
    -------
    str or None
        The same on all ranks; None where they agree.
    """
    sides: dict[tuple[object, ...], list[int]] = {}
    for place, call in enumerate(calls):
        sides.setdefault(call.agreed(), []).append(place)
    if len(sides) > 1:
        return "; ".join(_side(calls, ranks, places) for places in sides.values())
    for i, call in enumerate(calls):
        for j, other in enumerate(calls):
            if len(call.splits) == len(other.splits) == 2 and call.splits[0][j] != other.splits[1][i]:
                return (
                    f"rank {ranks[i]} sends {call.splits[0][j]} to rank {ranks[j]}, in {call}; that rank "
                    f"receives {other.splits[1][i]} from it, in {other}"
                )
    return None


def _side(calls: Sequence[Fingerprint], ranks: Sequence[int], places: Sequence[int]) -> str:
    who = rank_list([ranks[place] for place in places])
    return f"{who} {'calls' if len(places) == 1 else 'call'} {calls[places[0]]}"
