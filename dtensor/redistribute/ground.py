"""What a search for plans knows, and what it is made of: the ground, moves, and how near cuts are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shardwise.collectives import COLLECTIVES
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.redistribute.cost import Link, LinkCosts
from shardwise.dtensor.redistribute.state import Cut, State, volume
from shardwise.dtensor.redistribute.step import StepOp
from shardwise.mesh import DeviceMesh

__all__ = ["Ground", "Move", "coming_axes", "free_axes", "leaving_count", "sent", "with_cut"]


class Move(NamedTuple):
    """One operation: see `Step`, whose fields these are."""

    op: StepOp
    state: State
    axes: tuple[int, ...] = ()
    dim: int | None = None
    to_dim: int | None = None
    reduce_op: str | None = None
    divisor: int = 1
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What does not change during a search.

    Attributes
    ----------
    like : Layout
        Of the tensor: its mesh, shape and dtype count.
    goal : State
    costs : LinkCosts
    hosts : tuple of int
        Number of the host of each rank of the world; empty where there is one.
    """

    like: Layout
    goal: State
    costs: LinkCosts
    hosts: tuple[int, ...] = ()
    _links: dict[tuple[int, ...], Link] = field(default_factory=dict)

    @property
    def mesh(self) -> DeviceMesh:
        return self.like.mesh

    @property
    def widths(self) -> tuple[int, ...]:
        return self.like.mesh.shape

    @property
    def is_small(self) -> bool:
        """Whether there are so few axes and dims that all ways can be tried."""
        return sum(width > 1 for width in self.widths) <= 2 and self.like.ndim <= 4

    def size(self, axes: tuple[int, ...]) -> int:
        """Number of ranks that differ along some axes."""
        return math.prod([self.widths[axis] for axis in axes])

    def nbytes(self, state: State) -> int:
        """Bytes of the largest local array."""
        return volume(state, self.like.shape, self.mesh) * self.like.dtype.itemsize

    def link(self, axes: tuple[int, ...]) -> Link:
        """What lies between ranks that differ along some axes."""
        found = self._links.get(axes)
        if found is None:
            found = self._links[axes] = self.costs.link(any(self._is_far(axis) for axis in axes))
        return found

    def _is_far(self, axis: int) -> bool:
        if not self.hosts:
            return False
        where = np.asarray(self.hosts)[self.mesh.mesh]
        return bool((where != where.take([0], axis)).any())


def with_cut(state: State, dim: int, cut: Cut) -> State:
    """Give a state with another cut of one dim."""
    return state._replace(cuts=(*state.cuts[:dim], cut, *state.cuts[dim + 1 :]))


def free_axes(here: State, ground: Ground) -> tuple[int, ...]:
    """Give the axes along which ranks have the same."""
    used = {axis for cut in here.cuts for axis in cut.axes} | {axis for axis, _ in here.terms}
    return tuple([axis for axis, width in enumerate(ground.widths) if width > 1 and axis not in used])


def coming_axes(cut: Cut, goal: Cut) -> tuple[int, ...] | None:
    """Give the axes that a dim is to be cut over next, or None if something must be undone first."""
    if cut == goal:
        return ()
    if goal.sizes is not None:
        return goal.axes if not cut.axes else None
    if cut.sizes is not None or goal.axes[: len(cut.axes)] != cut.axes:
        return None
    return goal.axes[len(cut.axes) :]


def leaving_count(cut: Cut, goal: Cut) -> int:
    """Give how many axes, from the innermost, a dim is to lose."""
    if cut == goal:
        return 0
    if cut.sizes is not None or goal.sizes is not None:
        return len(cut.axes)
    kept = 0
    for a, b in zip(cut.axes, goal.axes, strict=False):
        if a != b:
            break
        kept += 1
    return len(cut.axes) - kept


def sent(op: str, nbytes: int, n: int) -> int:
    """Give what a rank sends at least, as the ledger counts it."""
    return COLLECTIVES[op].moved(nbytes, n)
