"""What of an index lies in a part of an array: the key for the part, and which of the places it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.ops.key import spelled_index

__all__ = [
    "Here", "Place", "by_dim", "chosen_in", "flat_shape", "here_of", "is_whole", "lead_of", "names_places",
]  # fmt: skip


class Place(NamedTuple):
    """Where a part lies in an array: offsets, and the shape of the whole."""

    offset: Shape
    whole: Shape


class Here(NamedTuple):
    """What of an index lies in a part.

    Attributes
    ----------
    key : tuple
        For the part: in place of all arrays and integers, arrays of one dim.
    lead : int
        How many dims of the result stand before those that the arrays share.
    block : tuple of int
        The sizes of these.
    chosen : array of int
        Which of the places in the block, counted in C order, lie here.
    """

    key: tuple[Any, ...]
    lead: int
    block: Shape
    chosen: Array


def chosen_in(here: Here) -> Any:
    """Return the index of what lies here, for a result with the dims of the block as one."""
    return (*(slice(None),) * here.lead, here.chosen)


def here_of(key: Any, shape: Shape, place: Place) -> Here:
    """Tell what of an index lies in a part of shape `shape`; steps along cut dims are positive."""
    parts = by_dim(key, len(shape))
    arrays = [part for part in parts if names_places(part)]
    block = np.broadcast_shapes(*[np.shape(part) for part in arrays])
    here = np.ones(block, bool)
    dim = 0
    spread: list[Any] = []
    for part in parts:
        if names_places(part):
            n, whole = shape[dim], place.whole[dim]
            _check(part, whole, dim)
            at = np.where(np.asarray(part) < 0, np.asarray(part) + whole, part)
            at = at - place.offset[dim] if n < whole else at
            here = here & (at >= 0) & (at < n)
            spread.append(np.broadcast_to(at, block).reshape(-1))
        dim += part is not None and part is not Ellipsis
    chosen = np.flatnonzero(here)
    named = iter(spread)
    out: list[Any] = []
    dim = 0
    for part in parts:
        if names_places(part):
            out.append(next(named)[chosen])
        elif isinstance(part, slice) and shape[dim] < place.whole[dim] and not is_whole(part):
            out.append(_slice_here(part, shape[dim], place.offset[dim], place.whole[dim]))
        else:
            out.append(part)
        dim += part is not None and part is not Ellipsis
    return Here(tuple(out), lead_of(parts), block, chosen)


def by_dim(key: Any, ndim: int) -> list[Any]:
    """Return the parts of an index, with masks as the places that they choose."""
    parts: list[Any] = []
    for part in spelled_index(key, ndim):
        mask = getattr(part, "dtype", None) == np.bool_
        parts += list(np.nonzero(part)) if mask else [part]
    return parts


def names_places(part: Any) -> bool:
    return type(part) is int or hasattr(part, "dtype")


def _check(part: Any, whole: int, dim: int) -> None:
    places = np.asarray(part)
    if places.size and (int(places.min()) < -whole or int(places.max()) >= whole):
        wrong = places[(places < -whole) | (places >= whole)].flat[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {dim} with size {whole}")


def _slice_here(part: slice, n: int, offset: int, whole: int) -> slice:
    start, stop, step = part.indices(whole)
    count = len(range(start, stop, step))
    low, high = (min(max(-(-(at - start) // step), 0), count) for at in (offset, offset + n))
    if high <= low or not n:
        return slice(0, 0)
    return slice(start + low * step - offset, start + (high - 1) * step + 1 - offset, step)


def lead_of(parts: Sequence[Any]) -> int:
    """Return how many dims of the result stand before those of the arrays: none if these stand apart."""
    places = [i for i, part in enumerate(parts) if names_places(part)]
    if places and places != list(range(places[0], places[-1] + 1)):
        return 0
    return sum(1 for part in parts[: places[0] if places else 0] if part is None or isinstance(part, slice))


def flat_shape(here: Here, shape: Shape) -> Shape:
    """Return the shape of a result with the dims of the block as one."""
    after = shape[here.lead + len(here.block) :]
    return (*shape[: here.lead], math.prod(here.block), *after)


def is_whole(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)
