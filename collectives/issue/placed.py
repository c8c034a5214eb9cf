"""Large collectives whose parts are laid straight into the results, where the transport has a way to.

Whether a collective goes so is decided by what all ranks give alike; what only one of them knows, that the
user gave an array to fill, or that its memory is full, is told when they meet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.collectives.group import ProcessGroup
from shardwise.collectives.issue.operation import Wrap, submit
from shardwise.collectives.layout import resized, stretches
from shardwise.collectives.pending import Pending
from shardwise.collectives.placing import Piece, Placer, Placing
from shardwise.collectives.transport import Channel
from shardwise.collectives.work import Work

__all__ = ["LARGE_WHOLE", "gather_placed", "is_large", "largest_swapped", "sum_placed", "swap_placed"]

T = TypeVar("T")

LARGE, LARGE_WHOLE = 1 << 17, 1 << 23
"""Bytes of the largest result from which a transport is asked whether it has a way to.

The second is for parts that lie one after the other, which need not be packed otherwise.
"""

Ordinary: TypeAlias = Callable[[], tuple[Callable[[Channel], Pending], Callable[[], T]]]
"""Gives what begins the collective the ordinary way, and what its result is."""


def is_large(x: Array, nbytes: int, group: ProcessGroup, packs: bool) -> bool:
    """Say whether a transport is asked, by the bytes of the largest result: alike on all ranks."""
    return nbytes >= (LARGE if packs else LARGE_WHOLE) and type(x) is np.ndarray and group.size > 1


def gather_placed(
    x: Array,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    wants: bool,
    ordinary: Ordinary[T],
    wrap: Wrap[T],
    background: bool,
    splits: Sequence[Sequence[int]] = (),
) -> Work[T]:
    """Begin to concatenate every rank's `x`, so long along `dim`."""
    rank = group.member("all_gather")
    shape = resized(x.shape, dim, sum(extents))
    index = (*(slice(None),) * dim, slice(*stretches(extents)[rank]))
    pieces = [Piece(member, x, index) for member in _members_from(rank, group.size)]
    work = _Placed("all_gather", group, x, [shape] * group.size, pieces, dim > 0, wants, ordinary, wrap)
    return work.submit(None, background, splits)


def largest_swapped(
    x: Array, split_dim: int, concat_dim: int, goes: Sequence[int], comes: Sequence[int]
) -> int:
    """Give the bytes of the largest result of a swap along two dims."""
    return math.prod(_swapped(x.shape, split_dim, max(goes), concat_dim, comes)) * x.dtype.itemsize


def _swapped(shape: Shape, split_dim: int, extent: int, concat_dim: int, comes: Sequence[int]) -> Shape:
    return resized(resized(shape, split_dim, extent), concat_dim, sum(comes))


def swap_placed(
    x: Array,
    group: ProcessGroup,
    split_dim: int,
    concat_dim: int,
    goes: Sequence[int],
    comes: Sequence[int],
    wants: bool,
    ordinary: Ordinary[T],
    wrap: Wrap[T],
    background: bool,
    splits: Sequence[Sequence[int]] = (),
) -> Work[T]:
    """Begin to give each rank its part of `x`, and to concatenate along another dim what comes back."""
    rank = group.member("all_to_all")
    shapes = [_swapped(x.shape, split_dim, extent, concat_dim, comes) for extent in goes]
    index = (*(slice(None),) * concat_dim, slice(*stretches(comes)[rank]))
    before, parts = (slice(None),) * split_dim, stretches(goes)
    pieces = [
        Piece(member, x[(*before, slice(*parts[member]))], index)
        for member in _members_from(rank, group.size)
    ]
    packs = split_dim > 0 or concat_dim > 0
    work = _Placed("all_to_all", group, x, shapes, pieces, packs, wants, ordinary, wrap)
    return work.submit(None, background, splits)


def sum_placed(
    x: Array,
    group: ProcessGroup,
    dim: int,
    extents: Sequence[int],
    wants: bool,
    ordinary: Ordinary[T],
    wrap: Wrap[T],
    background: bool,
    splits: Sequence[Sequence[int]] = (),
) -> Work[T]:
    """Begin to add up the arrays of two ranks, and to keep this rank's part along `dim`."""
    rank = group.member("reduce_scatter")
    before, parts = (slice(None),) * dim, stretches(extents)
    theirs, own = (x[(*before, slice(*parts[member]))] for member in (1 - rank, rank))
    shapes = [resized(x.shape, dim, extent) for extent in extents]

    def added(out: Array) -> T:
        np.add(out, own, out=out)
        return wrap(out)

    pieces = [Piece(1 - rank, theirs, (slice(None),))]
    work = _Placed("reduce_scatter", group, x, shapes, pieces, dim > 0, wants, ordinary, added)
    return work.submit("sum", background, splits)


class _Placed(Generic[T]):
    """One such collective."""

    def __init__(
        self,
        kind: str,
        group: ProcessGroup,
        x: Array,
        shapes: Sequence[Shape],
        pieces: Sequence[Piece],
        packs: bool,
        wants: bool,
        ordinary: Ordinary[T],
        finish: Callable[[Array], T],
    ) -> None:
        self._group = group
        self._x = x
        self._ordinary = ordinary
        self._finish = finish
        self._finish_ordinary: Callable[[], T] | None = None
        largest = max(map(math.prod, shapes)) * x.dtype.itemsize
        rank = group.member(kind)
        self._placing = Placing(
            kind, largest, rank, x.dtype, shapes, pieces, packs, wants, self._begin_ordinary
        )

    def submit(self, how: str | None, background: bool, splits: Sequence[Sequence[int]]) -> Work[T]:
        def start(on: Channel) -> Pending:
            return on.place(self._placing) if isinstance(on, Placer) else self._begin_ordinary(on)

        return submit(self._placing.kind, how, self._group, self._x, start, self._result, background, splits)

    def _begin_ordinary(self, on: Channel) -> Pending:
        start, self._finish_ordinary = self._ordinary()
        return start(on)

    def _result(self) -> T:
        if self._finish_ordinary is not None:
            return self._finish_ordinary()
        assert self._placing.out is not None
        return self._finish(self._placing.out)


def _members_from(rank: int, size: int) -> list[int]:
    """Members, beginning with this one, so that not all write into the memory of one at a time."""
    return [(rank + step) % size for step in range(size)]
