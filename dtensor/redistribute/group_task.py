"""The steps in which ranks along some axes run one collective."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import ProcessGroup, Work, World
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.issue.swap import issue_all_to_all
from shardwise.collectives.layout import stretches
from shardwise.collectives.reduction import Reduction
from shardwise.dtensor.layout import Coordinate, Layout
from shardwise.dtensor.redistribute.box import line, volume
from shardwise.dtensor.redistribute.exchange_task import placed
from shardwise.dtensor.redistribute.partial import divided, within
from shardwise.dtensor.redistribute.step import Step

__all__ = ["Gather", "GatherInto", "Reduce", "Swap"]


class _Together:
    """Of a step in which the ranks along some axes talk."""

    def __init__(self, step: Step, here: Coordinate) -> None:
        self._step = step
        self._members = line(step.source.mesh, here, step.axes)
        self._ranks = tuple([int(step.source.mesh.mesh[at]) for at in self._members])

    def group(self, world: World) -> ProcessGroup:
        return world.group(self._ranks)

    def _lengths(self, layout: Layout, dim: int) -> tuple[int, ...]:
        return tuple([layout.box(at).shape[dim] for at in self._members])


class Gather(_Together):
    """Concatenate along a dim."""

    def __init__(self, step: Step, here: Coordinate) -> None:
        super().__init__(step, here)
        self._dim = 0 if step.dim is None else step.dim
        self._sizes = _uneven(self._lengths(step.source, self._dim))

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        return issue_all_gather(x, self.group(world), self._dim, self._sizes, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        return came


class GatherInto(_Together):
    """Lay pieces where they belong, along several dims."""

    def __init__(self, step: Step, here: Coordinate) -> None:
        super().__init__(step, here)
        boxes = [step.source.box(at) for at in self._members]
        whole = step.target.box(here)
        self._shape = whole.shape
        self._counts = [volume(box) for box in boxes]
        self._parts = [
            (slice(*part), box.shape, within(whole.offset, *box))
            for part, box in zip(stretches(self._counts), boxes, strict=True)
            if part[1] > part[0]
        ]

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        counts = _uneven(self._counts)
        return issue_all_gather(x.reshape(-1), self.group(world), 0, counts, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        return placed(np.empty_like(x, shape=self._shape), came, self._parts)


class Reduce(_Together):
    """Reduce into all, or into pieces."""

    def __init__(self, step: Step, here: Coordinate) -> None:
        super().__init__(step, here)
        op: Reduction = step.reduce_op  # type: ignore[assignment]
        self._op = op
        self._sizes = None
        if step.op == "reduce_scatter" and step.dim is not None:
            self._sizes = _uneven(self._lengths(step.target, step.dim))

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        group = self.group(world)
        if self._step.op == "all_reduce":
            return issue_all_reduce(x, self._op, group, None, itself, background)
        assert self._step.dim is not None
        return issue_reduce_scatter(x, self._op, group, self._step.dim, self._sizes, None, itself, background)

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        return divided(came, self._step.divisor)


class Swap(_Together):
    """Make one dim whole and cut another one."""

    def __init__(self, step: Step, here: Coordinate) -> None:
        super().__init__(step, here)
        assert step.dim is not None
        assert step.to_dim is not None
        self._dim, self._to_dim = step.dim, step.to_dim
        goes = self._lengths(step.target, step.to_dim)
        comes = self._lengths(step.source, step.dim)
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


def _uneven(sizes: Sequence[int]) -> tuple[int, ...] | None:
    return None if len(set(sizes)) == 1 else tuple(sizes)
