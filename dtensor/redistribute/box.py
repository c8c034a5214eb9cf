"""Arithmetic of boxes: what two have in common, what one has that another has not, and who sends what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shardwise.dtensor.layout import Box, Coordinate, Layout
from shardwise.mesh import DeviceMesh

__all__ = ["Route", "boxes_by_rank", "common", "line", "rest", "route", "volume"]


def boxes_by_rank(layout: Layout, at: Sequence[Coordinate] | None = None) -> dict[int, Box]:
    """Give the box of each rank of a mesh, or of those at some coordinates, in their order; no empty ones."""
    ranks = layout.mesh.mesh
    places = np.ndindex(*ranks.shape) if at is None else at
    held = {int(ranks[place]): layout.box(place) for place in places}
    return {rank: box for rank, box in held.items() if 0 not in box.shape}


def line(mesh: DeviceMesh, at: Coordinate, axes: Sequence[int]) -> list[Coordinate]:
    """Give the coordinates that differ from one along some axes only, the last axis fastest."""
    found = []
    for steps in np.ndindex(*[mesh.shape[axis] for axis in axes]):
        place = list(at)
        for axis, i in zip(axes, steps, strict=True):
            place[axis] = i
        found.append(tuple(place))
    return found


def volume(box: Box) -> int:
    """Give the number of elements in a box."""
    return math.prod(box.shape)


def common(a: Box, b: Box) -> Box | None:
    """Give the box that lies in both, or None if none does.

    Examples
    --------
    >>> common(Box((0, 2), (4, 4)), Box((3, 0), (4, 3)))
    Box(offset=(3, 2), shape=(1, 1))
    """
    starts, lengths = [], []
    for start, n, other, m in zip(a.offset, a.shape, b.offset, b.shape, strict=True):
        low = start if start > other else other
        high = start + n if start + n < other + m else other + m
        if high <= low:
            return None
        starts.append(low)
        lengths.append(high - low)
    return Box(tuple(starts), tuple(lengths))


def rest(whole: Box, part: Box) -> list[Box]:
    """Give boxes that hold what `whole` has besides `part`, which lies in it.

    Examples
    --------
    >>> rest(Box((0,), (5,)), Box((1,), (2,)))
    [Box(offset=(0,), shape=(1,)), Box(offset=(3,), shape=(2,))]
    """
    found = []
    offset, shape = list(whole.offset), list(whole.shape)
    for dim in range(len(shape)):
        start, stop = part.offset[dim], part.offset[dim] + part.shape[dim]
        end = offset[dim] + shape[dim]
        for low, high in ((offset[dim], start), (stop, end)):
            if high > low:
                at, n = offset.copy(), shape.copy()
                at[dim], n[dim] = low, high - low
                found.append(Box(tuple(at), tuple(n)))
        offset[dim], shape[dim] = start, stop - start
    return found


class Route(NamedTuple):
    """What one rank does in an exchange.

    Attributes
    ----------
    sent, received : dict of list of Box
        By rank, in one order on both sides. Boxes count in the whole tensor.
    kept : Box or None
        What it has already.
    """

    sent: dict[int, list[Box]]
    received: dict[int, list[Box]]
    kept: Box | None


def route(held: Mapping[int, Box], wanted: Mapping[int, Box], rank: int, hosts: Sequence[int] = ()) -> Route:
    """Find what a rank sends to whom, and gets from whom; all ranks find the same.

    What a rank wants it takes from itself, then from a rank on its host, then from any. Among ranks that
    have the same, those that want it take turns, so that none has to send everything.

    Parameters
    ----------
    held, wanted : mapping of Box
        By rank; empty boxes left out. The ranks in the order that all know.
    rank : int
    hosts : sequence of int
        Number of the host of each rank; empty where there is one.
    """
    holders: dict[Box, list[int]] = {}
    for owner, box in held.items():
        holders.setdefault(box, []).append(owner)
    mine, need = held.get(rank), wanted.get(rank)
    sent: dict[int, list[Box]] = {}
    received: dict[int, list[Box]] = {}
    for turn, (other, target) in enumerate(wanted.items()):
        if other == rank:
            sources = list(holders)
        elif mine is not None and common(mine, target) is not None:
            sources = [mine]
        else:
            continue
        own = held.get(other)
        has = None if own is None else common(own, target)
        for piece in [target] if has is None else rest(target, has):
            for box in sources:
                both = common(box, piece)
                sender = _chosen(holders[box], other, turn, hosts)
                if both is not None and other == rank:
                    received.setdefault(sender, []).append(both)
                elif both is not None and sender == rank:
                    sent.setdefault(other, []).append(both)
    kept = None if mine is None or need is None else common(mine, need)
    return Route(sent, received, kept)


def _chosen(candidates: Sequence[int], wanting: int, turn: int, hosts: Sequence[int]) -> int:
    near = [each for each in candidates if hosts and hosts[each] == hosts[wanting]] or candidates
    return near[turn % len(near)]
