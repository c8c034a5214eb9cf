"""The step in which each rank gets, box by box, what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.collectives import Work, World
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.swap import issue_all_to_all_single
from shardwise.collectives.layout import stretches
from shardwise.dtensor.layout import Coordinate
from shardwise.dtensor.redistribute.box import boxes_by_rank, line, route, volume
from shardwise.dtensor.redistribute.cost import host_numbers
from shardwise.dtensor.redistribute.partial import within
from shardwise.dtensor.redistribute.step import Step

__all__ = ["Exchange", "Part", "placed"]

Part: TypeAlias = tuple[slice, Shape, tuple[slice, ...]]
"""A stretch of what has come, its shape, and where it belongs."""


class Exchange:
    """Of a step in which each rank gets, box by box, what it lacks."""

    def __init__(self, step: Step, rank: int, here: Coordinate | None, there: Coordinate | None) -> None:
        source, target = step.source, step.target
        if step.axes and here is not None:
            members = line(source.mesh, here, step.axes)
            held, wanted = boxes_by_rank(source, members), boxes_by_rank(target, members)
        elif step.axes:
            held, wanted = {}, {}
        else:
            held, wanted = boxes_by_rank(source), boxes_by_rank(target)
        self._ranks = tuple(sorted({*held, *wanted}))
        self._shape = target.local_shape(there)
        self._takes_part = rank in self._ranks
        if not self._takes_part:
            return
        way = route(held, wanted, rank, host_numbers())
        mine, need = held.get(rank), wanted.get(rank)
        self._goes = [sum(map(volume, way.sent.get(peer, ()))) for peer in self._ranks]
        self._comes = [sum(map(volume, way.received.get(peer, ()))) for peer in self._ranks]
        self._pieces = [
            within(mine.offset, *box)
            for peer in self._ranks
            for box in way.sent.get(peer, ())
            if mine is not None
        ]
        boxes = [box for peer in self._ranks for box in way.received.get(peer, ())]
        self._parts = [
            (slice(*part), box.shape, within(need.offset, *box))
            for part, box in zip(stretches(map(volume, boxes)), boxes, strict=True)
            if need is not None
        ]
        self._kept = None
        if way.kept is not None and mine is not None and need is not None:
            self._kept = within(need.offset, *way.kept), within(mine.offset, *way.kept)

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        if not self._takes_part:
            return None
        pieces = [x[index].reshape(-1) for index in self._pieces]
        flat = np.concatenate(pieces) if len(pieces) > 1 else pieces[0] if pieces else x.reshape(-1)[:0]
        group = world.group(self._ranks)
        return issue_all_to_all_single(flat, self._comes, self._goes, group, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        out = np.empty_like(x, shape=self._shape)
        if came is None:
            return out
        if self._kept is not None:
            there, here = self._kept
            out[there] = x[here]
        return placed(out, came, self._parts)


def placed(out: Array, flat: Array, parts: Sequence[Part]) -> Array:
    """Lay what has come, one part after the other, where it belongs."""
    for part, shape, index in parts:
        out[index] = flat[part].reshape(shape)
    return out
