"""The steps in which ranks along some axes run one collective."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.collectives import ProcessGroup, Work, World
from shardwise.collectives.form.operand import itself
from shardwise.collectives.issue.alike import issue_all_gather, issue_all_reduce, issue_reduce_scatter
from shardwise.collectives.issue.operation import submit
from shardwise.collectives.issue.swap import issue_all_to_all
from shardwise.collectives.layout import Stretch, stretches
from shardwise.collectives.reduction import Reduction
from shardwise.dtensor.layout import Box, Coordinate, Layout
from shardwise.dtensor.redistribute.box import line, volume
from shardwise.dtensor.redistribute.cost import host_numbers
from shardwise.dtensor.redistribute.exchange_task import Part, placed
from shardwise.dtensor.redistribute.partial import divided, within
from shardwise.dtensor.redistribute.step import Step

__all__ = ["Gather", "GatherInto", "Reduce", "Swap"]

_LARGE = 1 << 20  # bytes from which one copy less matters more than what MPI knows about gathering


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
    """Lay pieces where they belong: along several dims, or along an inner one.

    A large piece goes straight from this rank's array into the result, and only the others' are received.
    """

    def __init__(self, step: Step, here: Coordinate) -> None:
        super().__init__(step, here)
        boxes = [step.source.box(at) for at in self._members]
        counts = [volume(box) for box in boxes]
        whole = step.target.box(here)
        self._shape = whole.shape
        self._counts = counts
        self._own = self._members.index(here)
        self._large = step.dim is not None
        if self._large:
            counts = [*counts[: self._own], 0, *counts[self._own + 1 :]]
        self._stretches = stretches(counts)
        self._places = [within(whole.offset, *box) for box in boxes]
        self._parts = _parts(self._stretches, boxes, self._places)
        self._all = _parts(stretches(self._counts), boxes, self._places)

    @staticmethod
    def suits(step: Step) -> bool:
        """Tell whether this is how to gather; alike on all ranks."""
        if step.dim is None:
            return True
        outer = math.prod(step.target.box((0,) * step.target.mesh.ndim).shape[: step.dim])
        return (
            outer > 1
            and step.bytes >= _LARGE
            and step.source.mesh.device_type == "cpu"
            and not host_numbers()
        )

    def issue(self, x: Array, world: World, background: bool) -> Work[Array] | None:
        flat, group = x.reshape(-1), self.group(world)
        if not self._large or type(x) is not np.ndarray:
            return issue_all_gather(flat, group, 0, _uneven(self._counts), None, itself, background)
        flat = np.ascontiguousarray(flat)
        came = np.empty(self._stretches[-1][1], x.dtype)
        sent = [(0, flat.size)] * group.size
        sent[self._own] = (0, 0)
        return submit(
            "all_gather",
            None,
            group,
            x,
            lambda on: on.exchange(flat, came, sent, self._stretches),
            lambda: came,
            background,
            (self._counts,),
        )

    def finish(self, x: Array, came: Array | None) -> Array:
        assert came is not None
        out = np.empty_like(x, shape=self._shape)
        if self._large and type(x) is np.ndarray:
            out[self._places[self._own]] = x
            return placed(out, came, self._parts)
        return placed(out, came, self._all)


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


def _parts(where: Sequence[Stretch], boxes: Sequence[Box], places: Sequence[tuple[slice, ...]]) -> list[Part]:
    return [
        (slice(*part), box.shape, place)
        for part, box, place in zip(where, boxes, places, strict=True)
        if part[1] > part[0]
    ]


def _uneven(sizes: Sequence[int]) -> tuple[int, ...] | None:
    return None if len(set(sizes)) == 1 else tuple(sizes)
