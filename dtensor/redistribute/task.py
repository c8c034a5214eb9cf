"""A step as one rank does it: with whom it talks, and what becomes of its array.

Making a task finds out all that does not depend on the array, once for each plan and rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.collectives import ProcessGroup, Work, World
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.issue.swap import issue_all_to_all, issue_all_to_all_single
from shardwise.collectives.layout import stretches
from shardwise.collectives.reduction import Reduction
from shardwise.dtensor.layout import Box, Coordinate, Layout
from shardwise.dtensor.placement import Partial
from shardwise.dtensor.redistribute.box import boxes_by_rank, route
from shardwise.dtensor.redistribute.cost import host_numbers
from shardwise.dtensor.redistribute.partial import divided, embedded, partitioned, within
from shardwise.dtensor.redistribute.step import Step
from shardwise.mesh import DeviceMesh

__all__ = ["Task", "coordinate_of", "task_of"]


class Task(Protocol):
    """What one rank does in a step."""

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        """Begin to communicate; None where this rank has nothing to do with others."""

    def finish(self, x: Array, came: Array | None) -> Array:
        """Make the new local array of the old one and of what has come."""


def coordinate_of(mesh: DeviceMesh, rank: int) -> Coordinate | None:
    """Give the place of a rank in a mesh, or None if it has none."""
    found = np.argwhere(mesh.mesh == rank)
    return tuple([int(i) for i in found[0]]) if len(found) else None


def line(mesh: DeviceMesh, at: Coordinate, axes: Sequence[int]) -> list[Coordinate]:
    """Give the coordinates that differ from one along some axes only, the last axis fastest."""
    found = []
    for steps in np.ndindex(*[mesh.shape[axis] for axis in axes]):
        place = list(at)
        for axis, i in zip(axes, steps, strict=True):
            place[axis] = i
        found.append(tuple(place))
    return found


def task_of(step: Step, rank: int) -> Task:
    """Give what a rank does in a step."""
    here, there = coordinate_of(step.source.mesh, rank), coordinate_of(step.target.mesh, rank)
    if step.op == "exchange":
        return _Exchange(step, rank, here, there)
    if there is None or here is None:
        return _Nothing(step.target.local_shape(there))
    if step.op == "slice":
        wanted = step.target.box(there)
        return _Nothing(wanted.shape) if 0 in wanted.shape else _Slice(step.source.box(here), wanted)
    if step.op == "partition":
        return _Partition(step, there)
    if step.op == "scale":
        return _Scale(step)
    members = line(step.source.mesh, here, step.axes)
    if step.op == "all_gather":
        return _Gather(step, here, members)
    if step.op == "all_to_all":
        return _Swap(step, members)
    return _Reduce(step, members)


class _Alone:
    """Of a step in which ranks do not talk."""

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        return None


class _Nothing(_Alone):
    """Of a rank that gets nothing, in or outside the mesh."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def finish(self, x: Array, came: Array | None) -> Array:
        return x if x.shape == self._shape else np.empty_like(x, shape=self._shape)


class _Slice(_Alone):
    def __init__(self, held: Box, wanted: Box) -> None:
        self._index = within(held.offset, *wanted)

    def finish(self, x: Array, came: Array | None) -> Array:
        return x[self._index]


class _Partition(_Alone):
    def __init__(self, step: Step, at: Coordinate) -> None:
        self._step = step
        self._at = at

    def finish(self, x: Array, came: Array | None) -> Array:
        step = self._step
        if step.dim is not None:
            return embedded(x, step.source, step.target, step.axes[0], self._at)
        return partitioned(x, step.target, step.axes, self._at)


class _Scale(_Alone):
    """Sums become means of terms that are larger, and back."""

    def __init__(self, step: Step) -> None:
        self._times, self._by = 1, 1
        for axis in step.axes:
            placement = step.target.placements[axis]
            if isinstance(placement, Partial) and placement.reduce_op == "avg":
                self._times *= step.target.mesh.shape[axis]
            else:
                self._by *= step.target.mesh.shape[axis]

    def finish(self, x: Array, came: Array | None) -> Array:
        return (x * float(self._times) / float(self._by)).astype(x.dtype)


class _Together:
    """Of a step in which the ranks along some axes talk."""

    def __init__(self, step: Step, members: Sequence[Coordinate]) -> None:
        self._step = step
        self._ranks = tuple([int(step.source.mesh.mesh[at]) for at in members])

    def group(self, world: World) -> ProcessGroup:
        return world.group(self._ranks)

    def _lengths(self, layout: Layout, members: Sequence[Coordinate], dim: int) -> tuple[int, ...]:
        return tuple([layout.box(at).shape[dim] for at in members])


class _Gather(_Together):
    def __init__(self, step: Step, here: Coordinate, members: Sequence[Coordinate]) -> None:
        super().__init__(step, members)
        self._sizes: tuple[int, ...] | None
        if step.dim is not None:
            self._sizes = _uneven(self._lengths(step.source, members, step.dim))
            return
        boxes = [step.source.box(at) for at in members]
        counts = [math.prod(box.shape) for box in boxes]
        whole = step.target.box(here)
        self._shape = whole.shape
        self._sizes = _uneven(counts)
        self._parts = [
            (slice(*part), box.shape, within(whole.offset, box.offset, box.shape))
            for part, box in zip(stretches(counts), boxes, strict=True)
            if 0 not in box.shape
        ]

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        dim = self._step.dim
        if dim is None:
            x, dim = x.reshape(-1), 0
        return issue_all_gather(x, self.group(world), dim, self._sizes, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        if self._step.dim is not None:
            return came
        return _placed(np.empty_like(x, shape=self._shape), came, self._parts)


class _Reduce(_Together):
    def __init__(self, step: Step, members: Sequence[Coordinate]) -> None:
        super().__init__(step, members)
        op: Reduction = step.reduce_op  # type: ignore[assignment]
        self._op = op
        self._sizes = None
        if step.op == "reduce_scatter" and step.dim is not None:
            self._sizes = _uneven(self._lengths(step.target, members, step.dim))

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        group = self.group(world)
        if self._step.op == "all_reduce":
            return issue_all_reduce(x, self._op, group, None, itself, background)
        assert self._step.dim is not None
        return issue_reduce_scatter(x, self._op, group, self._step.dim, self._sizes, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        return divided(came, self._step.divisor)


class _Swap(_Together):
    def __init__(self, step: Step, members: Sequence[Coordinate]) -> None:
        super().__init__(step, members)
        assert step.dim is not None
        assert step.to_dim is not None
        self._dim, self._to_dim = step.dim, step.to_dim
        goes = self._lengths(step.target, members, step.to_dim)
        comes = self._lengths(step.source, members, step.dim)
        even = _uneven(goes) is None and _uneven(comes) is None
        self._goes: tuple[int, ...] | None = None if even else goes
        self._comes: tuple[int, ...] | None = None if even else comes

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        return issue_all_to_all(
            x, self.group(world), self._to_dim, self._dim, self._goes, self._comes, None, itself, background
        )

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        return came


class _Exchange:
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
        self._goes = [sum(map(_volume, way.sent.get(peer, ()))) for peer in self._ranks]
        self._comes = [sum(map(_volume, way.received.get(peer, ()))) for peer in self._ranks]
        self._pieces = [
            within(mine.offset, *box)
            for peer in self._ranks
            for box in way.sent.get(peer, ())
            if mine is not None
        ]
        boxes = [box for peer in self._ranks for box in way.received.get(peer, ())]
        self._parts = [
            (slice(*part), box.shape, within(need.offset, *box))
            for part, box in zip(stretches(map(_volume, boxes)), boxes, strict=True)
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
        return _placed(out, came, self._parts)


def _placed(out: Array, flat: Array, parts: Sequence[tuple[slice, Shape, tuple[slice, ...]]]) -> Array:
    """Lay what has come, one part after the other, where it belongs."""
    for part, shape, index in parts:
        out[index] = flat[part].reshape(shape)
    return out


def _uneven(sizes: Sequence[int]) -> tuple[int, ...] | None:
    return None if len(set(sizes)) == 1 else tuple(sizes)


def _volume(box: Box) -> int:
    return math.prod(box.shape)
