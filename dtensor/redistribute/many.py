"""`run_many`: carry out several plans, with one operation for all small arrays that need the same one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import Conversion, ProcessGroup, World, get_world
from shardwise.collectives.form.operand import itself, joined
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.layout import stretches
from shardwise.collectives.ledger import conversion
from shardwise.collectives.reduction import Reduction
from shardwise.dtensor.layout import Box, Coordinate
from shardwise.dtensor.redistribute.box import line, volume
from shardwise.dtensor.redistribute.partial import divided, within
from shardwise.dtensor.redistribute.plan import Plan
from shardwise.dtensor.redistribute.run import issued, tasks
from shardwise.dtensor.redistribute.step import Step
from shardwise.dtensor.redistribute.task import coordinate_of

__all__ = ["run_many"]

_SMALL = 1 << 18  # bytes of a local array: more take longer to copy together than an operation to begin
_TOGETHER = ("all_reduce", "reduce_scatter", "all_gather")

Kind: TypeAlias = tuple[Any, ...]


def run_many(items: Sequence[tuple[Plan, Array]]) -> list[Array]:
    """Give this rank's new local arrays, as `run` does for each.

    Parameters
    ----------
    items : sequence of (Plan, array)
        The same plans on all ranks, in the same order.

    Returns
    -------
    list of array
        In their order.

    Notes
    -----
    All-reduces, reduce-scatters and all-gathers over the same ranks and of the same dtype become one for all
    arrays up to 256 KiB; sums do not depend on what goes along.
    """
    world = get_world()
    arrays = [local for _, local in items]
    places = [0] * len(items)
    while True:
        _advance(items, arrays, places, world)
        waiting = [i for i, (plan, _) in enumerate(items) if places[i] < len(plan.steps)]
        if not waiting:
            return arrays
        first = waiting[0]
        kind = _kind(items[first][0].steps[places[first]])
        alike = [i for i in waiting if _kind(items[i][0].steps[places[i]]) == kind] if kind else [first]
        steps = [items[i][0].steps[places[i]] for i in alike]
        here = coordinate_of(steps[0].source.mesh, world.rank)
        if len(alike) > 1 and here is not None:
            for i, made in zip(alike, _together(steps, [arrays[i] for i in alike], here, world), strict=True):
                arrays[i] = made
        else:
            for i in alike:
                task, change = tasks(items[i][0], world.rank)[places[i]]
                work = issued(task, change, arrays[i], world, False)
                arrays[i] = task.finish(arrays[i], None if work is None else work.wait())
        for i in alike:
            places[i] += 1


def _advance(
    items: Sequence[tuple[Plan, Array]], arrays: list[Array], places: list[int], world: World
) -> None:
    """Do all that needs no others."""
    for i, (plan, _) in enumerate(items):
        while places[i] < len(plan.steps) and not plan.steps[places[i]].communicates:
            task, _ = tasks(plan, world.rank)[places[i]]
            arrays[i] = task.finish(arrays[i], None)
            places[i] += 1


def _kind(step: Step) -> Kind | None:
    """Say which steps go together, by what all ranks know; None for one that goes alone."""
    largest = math.prod(step.source.box((0,) * step.source.mesh.ndim).shape) * step.source.dtype.itemsize
    if step.op not in _TOGETHER or largest > _SMALL:
        return None
    return step.op, step.source.mesh, step.axes, step.reduce_op, step.source.dtype


def _together(steps: list[Step], xs: list[Array], here: Coordinate, world: World) -> list[Array]:
    """Carry out steps of one kind by one operation."""
    first = steps[0]
    members = line(first.source.mesh, here, first.axes)
    group = world.group(tuple([int(first.source.mesh.mesh[at]) for at in members]))
    seconds = sum(step.seconds for step in steps)
    token = conversion.set(Conversion(str(first.source), str(first.target), seconds))
    try:
        if first.op == "all_reduce":
            return _reduced(steps, xs, group)
        if first.op == "all_gather":
            return _gathered(steps, xs, here, members, group)
        return _scattered(steps, xs, here, members, group)
    finally:
        conversion.reset(token)


def _reduced(steps: list[Step], xs: list[Array], group: ProcessGroup) -> list[Array]:
    op: Reduction = steps[0].reduce_op  # type: ignore[assignment]
    flat = issue_all_reduce(joined(xs), op, group, None, itself, False).wait()
    return [
        divided(flat[slice(*part)].reshape(x.shape), step.divisor)
        for part, x, step in zip(stretches([x.size for x in xs]), xs, steps, strict=True)
    ]


def _gathered(
    steps: list[Step], xs: list[Array], here: Coordinate, members: list[Coordinate], group: ProcessGroup
) -> list[Array]:
    boxes = [[step.source.box(at) for step in steps] for at in members]
    sizes = [sum(map(volume, row)) for row in boxes]
    flat = issue_all_gather(joined(xs), group, 0, sizes, None, itself, False).wait()
    wholes = [step.target.box(here) for step in steps]
    made = [np.empty_like(x, shape=whole.shape) for x, whole in zip(xs, wholes, strict=True)]
    parts = iter(stretches([volume(box) for row in boxes for box in row]))
    for row in boxes:
        for out, whole, box in zip(made, wholes, row, strict=True):
            part = slice(*next(parts))
            if 0 not in box.shape:
                out[within(whole.offset, *box)] = flat[part].reshape(box.shape)
    return made


def _scattered(
    steps: list[Step], xs: list[Array], here: Coordinate, members: list[Coordinate], group: ProcessGroup
) -> list[Array]:
    op: Reduction = steps[0].reduce_op  # type: ignore[assignment]
    pieces = [[step.target.box(at) for step in steps] for at in members]
    flats = [
        x[_part(step.source.box(here), box)].reshape(-1)
        for row in pieces
        for step, x, box in zip(steps, xs, row, strict=True)
    ]
    sizes = [sum(map(volume, row)) for row in pieces]
    flat = issue_reduce_scatter(joined(flats), op, group, 0, sizes, None, itself, False).wait()
    own = pieces[members.index(here)]
    return [
        divided(flat[slice(*part)].reshape(box.shape), step.divisor)
        for part, box, step in zip(stretches(map(volume, own)), own, steps, strict=True)
    ]


def _part(whole: Box, box: Box) -> tuple[slice, ...]:
    """Give the index of a piece; an empty one lies nowhere."""
    return (slice(0, 0),) * len(box.shape) if 0 in box.shape else within(whole.offset, *box)
