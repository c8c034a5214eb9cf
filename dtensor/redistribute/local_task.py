"""The steps in which a rank needs no one else."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.collectives import Work, World
from shardwise.dtensor.layout import Box, Coordinate
from shardwise.dtensor.placement import Partial
from shardwise.dtensor.redistribute.partial import embedded, partitioned, within
from shardwise.dtensor.redistribute.step import Step

__all__ = ["Nothing", "Partition", "Scale", "Slice"]


class _Alone:
    """Of a step in which ranks do not talk."""

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        return None


class Nothing(_Alone):
    """Of a rank that gets nothing, in or outside the mesh."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def finish(self, x: Array, came: Array | None) -> Array:
        return x if x.shape == self._shape else np.empty_like(x, shape=self._shape)


class Slice(_Alone):
    """Keep a part."""

    def __init__(self, held: Box, wanted: Box) -> None:
        self._index = within(held.offset, *wanted)

    def finish(self, x: Array, came: Array | None) -> Array:
        return x[self._index]


class Partition(_Alone):
    """Make terms of a value that all have, or of a piece."""

    def __init__(self, step: Step, at: Coordinate) -> None:
        self._step = step
        self._at = at

    def finish(self, x: Array, came: Array | None) -> Array:
        step = self._step
        if step.dim is not None:
            return embedded(x, step.source, step.target, step.axes[0], self._at)
        return partitioned(x, step.target, step.axes, self._at)


class Scale(_Alone):
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
