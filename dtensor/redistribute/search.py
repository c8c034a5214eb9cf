"""The cheapest way from one state to another: Dijkstra's search over the moves."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

from shardwise.dtensor.redistribute.ground import Ground, Move
from shardwise.dtensor.redistribute.move import moves
from shardwise.dtensor.redistribute.state import State

__all__ = ["cheapest"]


def cheapest(start: State, ground: Ground, ended: Callable[[State], bool]) -> tuple[Move, ...]:
    """Give the moves of the cheapest way to a state for which `ended` is true.

    Of equal ways it is the one with fewer moves, then the one found first; the same on all ranks.
    """
    best: dict[State, tuple[float, int]] = {start: (0.0, 0)}
    came: dict[State, tuple[State, Move]] = {}
    turns = count()
    queue = [(0.0, 0, next(turns), start)]
    done: set[State] = set()
    while queue:
        seconds, length, _, here = heapq.heappop(queue)
        if here in done:
            continue
        if ended(here):
            return _way(here, came)
        done.add(here)
        for move in moves(here, ground):
            there = move.state
            price = (seconds + move.seconds, length + 1)
            if there not in done and price < best.get(there, (math.inf, 0)):
                best[there] = price
                came[there] = (here, move)
                heapq.heappush(queue, (*price, next(turns), there))
    raise AssertionError(f"no way from {start} to {ground.goal}")


def _way(here: State, came: dict[State, tuple[State, Move]]) -> tuple[Move, ...]:
    way = []
    while here in came:
        here, move = came[here]
        way.append(move)
    return tuple(reversed(way))
