"""The moves out of a state on the way to another: every change that one operation can make.

Only what comes nearer is a move: a dim loses axes that the target has not, or gains those that come next
there. A cut is undone from its innermost axis and made at its innermost place, where pieces of any length
line up; everything else is an exchange of boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shardwise.collectives import COLLECTIVES
from shardwise.dtensor.layout import Coordinate, Layout
from shardwise.dtensor.redistribute.box import common
from shardwise.dtensor.redistribute.cost import Link, LinkCosts
from shardwise.dtensor.redistribute.state import Cut, State, Terms, layout_of, local_shape, volume
from shardwise.dtensor.redistribute.step import StepOp
from shardwise.mesh import DeviceMesh

__all__ = ["Ground", "Move", "exchanged_axes", "moves", "reduced"]

_SAMPLE = 16  # coordinates that an exchange is priced by

_LINEAR = ("sum", "avg")


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


def moves(here: State, ground: Ground) -> Iterator[Move]:
    """Give the moves out of a state. What costs nothing and only makes pieces smaller goes first, alone."""
    sliced = _slice(here, ground)
    if sliced is not None:
        yield sliced
        return
    pending = _pending(here, ground)
    if pending:
        yield from _reductions(here, pending, ground)
    else:
        yield from _embeddings(here, ground)
        if _terms_fit(here, ground.goal.terms) and here.cuts != ground.goal.cuts:
            yield _exchange(here, ground)
    yield from _gathers(here, ground)
    yield from _swaps(here, ground)


def _with_cut(state: State, dim: int, cut: Cut) -> State:
    return state._replace(cuts=(*state.cuts[:dim], cut, *state.cuts[dim + 1 :]))


def _pending(here: State, ground: Ground) -> Terms:
    """Give the terms that are still to be reduced."""
    return tuple([term for term in here.terms if term not in ground.goal.terms])


def _terms_fit(here: State, goal: Terms) -> bool:
    return all(term in goal for term in here.terms)


def _free(here: State, ground: Ground) -> set[int]:
    """Give the axes along which ranks have the same."""
    used = {axis for cut in here.cuts for axis in cut.axes} | {axis for axis, _ in here.terms}
    return {axis for axis, width in enumerate(ground.widths) if width > 1} - used


def _coming(cut: Cut, goal: Cut) -> tuple[int, ...] | None:
    """Give the axes that a dim is to be cut over next, or None if something must be undone first."""
    if cut == goal:
        return ()
    if goal.sizes is not None:
        return goal.axes if not cut.axes else None
    if cut.sizes is not None or goal.axes[: len(cut.axes)] != cut.axes:
        return None
    return goal.axes[len(cut.axes) :]


def _slice(here: State, ground: Ground) -> Move | None:
    """Cut over axes along which all have the same, wherever that is next."""
    free = _free(here, ground)
    axes: list[int] = []
    state = here
    for dim, (cut, goal) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
        coming = _coming(cut, goal) or ()
        if goal.sizes is not None:
            coming = coming if free.issuperset(coming) else ()
        taken = tuple(itertools.takewhile(free.__contains__, coming))
        if taken:
            state = _with_cut(state, dim, Cut(cut.axes + taken, goal.sizes))
            axes += taken
    return Move("slice", state, tuple(axes)) if axes else None


def _leaving(cut: Cut, goal: Cut) -> int:
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


def _gathers(here: State, ground: Ground) -> Iterator[Move]:
    """Make dims whole over their innermost axes: of one dim, or of all that are to lose some."""
    leaving = [_leaving(cut, goal) for cut, goal in zip(here.cuts, ground.goal.cuts, strict=True)]
    for dim, most in enumerate(leaving):
        cut = here.cuts[dim]
        fewest = most if cut.sizes is not None else 1
        for count in range(fewest, most + 1) if most else ():
            rest = Cut(cut.axes[: len(cut.axes) - count])
            yield _gather(here, _with_cut(here, dim, rest), cut.axes[len(rest.axes) :], dim, ground)
    if sum(count > 0 for count in leaving) > 1:
        axes: list[int] = []
        state = here
        for dim, count in enumerate(leaving):
            cut = here.cuts[dim]
            if count:
                state = _with_cut(state, dim, Cut(cut.axes[: len(cut.axes) - count]))
                axes += cut.axes[len(cut.axes) - count :]
        yield _gather(here, state, tuple(axes), None, ground)


def _gather(here: State, there: State, axes: tuple[int, ...], dim: int | None, ground: Ground) -> Move:
    nbytes, n = ground.nbytes(here), ground.size(axes)
    seconds = ground.link(axes).all_gather(nbytes, n)
    return Move("all_gather", there, axes, dim, bytes=_sent("all_gather", nbytes, n), seconds=seconds)


def _swaps(here: State, ground: Ground) -> Iterator[Move]:
    """Cut one dim over the axes that another one loses, where they come next there."""
    for dim, (cut, goal) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
        if cut.sizes is not None:
            continue
        for count in range(1, _leaving(cut, goal) + 1):
            axes = cut.axes[len(cut.axes) - count :]
            for to_dim, (other, wanted) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
                coming = _coming(other, wanted)
                if to_dim == dim or wanted.sizes is not None or not coming or coming[:count] != axes:
                    continue
                state = _with_cut(here, dim, Cut(cut.axes[: len(cut.axes) - count]))
                state = _with_cut(state, to_dim, Cut(other.axes + axes))
                nbytes, n = ground.nbytes(here), ground.size(axes)
                seconds = ground.link(axes).all_to_all(nbytes, n)
                sent = _sent("all_to_all", nbytes, n)
                yield Move("all_to_all", state, axes, dim, to_dim, bytes=sent, seconds=seconds)


def _reductions(here: State, pending: Terms, ground: Ground) -> Iterator[Move]:
    """Reduce terms along one axis, or along all that one reduction takes; into all, or into pieces."""
    axes = tuple([axis for axis, _ in pending])
    linear = all(op in _LINEAR for _, op in pending)
    several = len({op for _, op in pending}) == 1 or linear
    for taken in [axes, *[(axis,) for axis in axes]] if several and len(axes) > 1 else [(a,) for a in axes]:
        yield from _reduction(here, taken, ground)
    if len(axes) > 2:
        for count in range(2, len(axes)):
            yield from _reduction(here, axes[:count], ground) if several else ()


def _reduction(
    here: State, axes: tuple[int, ...], ground: Ground, asked: int | None = None
) -> Iterator[Move]:
    ops = dict(here.terms)
    kinds = {ops[axis] for axis in axes}
    op = kinds.pop() if len(kinds) == 1 else "sum"
    divisor = ground.size(tuple([axis for axis in axes if ops[axis] == "avg"])) if op == "sum" else 1
    state = here._replace(terms=tuple([term for term in here.terms if term[0] not in axes]))
    nbytes, n, link = ground.nbytes(here), ground.size(axes), ground.link(axes)
    sent = _sent("all_reduce", nbytes, n)
    yield Move("all_reduce", state, axes, None, None, op, divisor, sent, link.all_reduce(nbytes, n))
    sent, seconds = _sent("reduce_scatter", nbytes, n), link.reduce_scatter(nbytes, n)
    for dim, (cut, goal) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
        if cut.sizes is not None or asked not in (None, dim):
            continue
        coming, sizes = _coming(cut, goal) or (), None
        if set(coming[: len(axes)]) == set(axes) and (goal.sizes is None or len(coming) == len(axes)):
            pieces, sizes = coming[: len(axes)], goal.sizes  # in the order in which the target has them
        elif cut.axes or goal.axes or dim == asked:
            pieces = axes
        else:
            continue
        there = _with_cut(state, dim, Cut(cut.axes + pieces, sizes))
        yield Move("reduce_scatter", there, pieces, dim, None, op, divisor, sent, seconds)


def reduced(here: State, ground: Ground) -> Move:
    """Reduce all terms, into pieces along the longest dim: fewer bytes than into all, now and later."""
    axes = tuple([axis for axis, _ in here.terms])
    lengths = local_shape(here, ground.like.shape, ground.mesh)
    dims = [dim for dim, cut in enumerate(here.cuts) if cut.sizes is None]
    dim = max(dims, key=lambda dim: (lengths[dim], -dim), default=None)
    found = list(_reduction(here, axes, ground, dim))
    return found[-1] if dim is not None and lengths[dim] > 1 else found[0]


def _embeddings(here: State, ground: Ground) -> Iterator[Move]:
    """Make a piece one of the terms, with nothing around it."""
    goal = dict(ground.goal.terms)
    for dim, cut in enumerate(here.cuts):
        if cut.axes and cut.sizes is None and cut.axes[-1] in goal:
            axis = cut.axes[-1]
            terms = tuple(sorted([*here.terms, (axis, goal[axis])]))
            state = _with_cut(here, dim, Cut(cut.axes[:-1]))._replace(terms=terms)
            yield Move("partition", state, (axis,), dim, None, goal[axis])


def exchanged_axes(here: State, there: State) -> tuple[int, ...]:
    """Give the axes along which ranks have to talk to go from cuts to others: all that any cut changes.

    Ranks that differ along no other axes hold together what each of them needs.
    """
    axes: list[int] = []
    for cut, goal in zip(here.cuts, there.cuts, strict=True):
        count = _leaving(cut, goal)
        if cut != goal:
            kept = len(cut.axes) - count
            axes += cut.axes[kept:] + goal.axes[kept:]
    return tuple(sorted(set(axes)))


def _exchange(here: State, ground: Ground) -> Move:
    """Go to the cuts of the goal at once: each rank gets just what it lacks."""
    state = here._replace(cuts=ground.goal.cuts)
    axes = exchanged_axes(here, state)
    source, target = layout_of(here, ground.like), layout_of(state, ground.like)
    lacking = [_lacking(source, target, at) for at in _sample(ground.widths, axes)]
    itemsize, n = ground.like.dtype.itemsize, ground.size(axes)
    seconds = ground.link(axes).exchange(max(lacking) * itemsize, n)
    return Move("exchange", state, axes, bytes=sum(lacking) * itemsize // len(lacking), seconds=seconds)


def _lacking(source: Layout, target: Layout, at: Coordinate) -> int:
    wanted = target.box(at)
    both = common(source.box(at), wanted)
    return math.prod(wanted.shape) - (0 if both is None else math.prod(both.shape))


def _sample(widths: tuple[int, ...], axes: tuple[int, ...]) -> list[Coordinate]:
    """Give coordinates that differ along some axes: all, or some that lie apart."""
    sizes = [widths[axis] for axis in axes]
    total = math.prod(sizes)
    chosen = range(total) if total <= _SAMPLE else [(i * total) // _SAMPLE + i % 3 for i in range(_SAMPLE)]
    found = []
    for number in chosen:
        at = [0] * len(widths)
        for axis, width in zip(reversed(axes), reversed(sizes), strict=True):
            number, at[axis] = divmod(number, width)
        found.append(tuple(at))
    return found


def _sent(op: str, nbytes: int, n: int) -> int:
    return COLLECTIVES[op].moved(nbytes, n)
