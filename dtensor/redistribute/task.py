"""A step as one rank does it: with whom it talks, and what becomes of its array.

Making a task finds out all that does not depend on the array, once for each plan and rank.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import Work, World
from shardwise.dtensor.layout import Coordinate
from shardwise.dtensor.redistribute.exchange_task import Exchange
from shardwise.dtensor.redistribute.group_task import Gather, GatherInto, Reduce, Swap
from shardwise.dtensor.redistribute.local_task import Nothing, Partition, Scale, Slice
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


def task_of(step: Step, rank: int) -> Task:
    """Give what a rank does in a step."""
    here, there = coordinate_of(step.source.mesh, rank), coordinate_of(step.target.mesh, rank)
    if step.op == "exchange":
        return Exchange(step, rank, here, there)
    if there is None or here is None:
        return Nothing(step.target.local_shape(there))
    if step.op == "slice":
        wanted = step.target.box(there)
        return Nothing(wanted.shape) if 0 in wanted.shape else Slice(step.source.box(here), wanted)
    if step.op == "partition":
        return Partition(step, there)
    if step.op == "scale":
        return Scale(step)
    if step.op == "all_gather":
        return GatherInto(step, here) if step.dim is None else Gather(step, here)
    return Swap(step, here) if step.op == "all_to_all" else Reduce(step, here)
