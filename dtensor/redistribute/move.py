"""The moves out of a state on the way to another: every change that one operation can make.

Only what comes nearer is a move: a dim loses axes that the target has not, or gains those that come next
there. A cut is undone from its innermost axis and made at its innermost place, where pieces of any length
line up; everything else is an exchange of boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from shardwise.dtensor.layout import Coordinate, Layout
from shardwise.dtensor.redistribute.box import common
from shardwise.dtensor.redistribute.ground import (
    Ground,
    Move,
    coming_axes,
    free_axes,
    leaving_count,
    sent,
    with_cut,
)
from shardwise.dtensor.redistribute.reduction import embeddings, pending_terms, reductions
from shardwise.dtensor.redistribute.state import Cut, State, layout_of

__all__ = ["lacking", "moves"]

_FEW = 8  # ranks that an exchange is priced by during a search


def moves(here: State, ground: Ground) -> Iterator[Move]:
    """Give the moves out of a state. What costs nothing and only makes pieces smaller goes first, alone."""
    sliced = _slice(here, ground)
    if sliced is not None:
        yield sliced
        return
    pending = pending_terms(here, ground)
    if pending:
        yield from reductions(here, pending, ground)
    else:
        yield from embeddings(here, ground)
    collective = [*_gathers(here, ground), *_swaps(here, ground)]
    yield from collective
    # What one collective does, it does with the same bytes.
    if not pending and all(
        move.state.cuts != ground.goal.cuts for move in (Move("slice", here), *collective)
    ):
        yield _exchange(here, ground)


def _slice(here: State, ground: Ground) -> Move | None:
    """Cut over axes along which all have the same, wherever that is next."""
    free = free_axes(here, ground)
    axes: list[int] = []
    state = here
    for dim, (cut, goal) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
        coming = coming_axes(cut, goal) or ()
        if goal.sizes is not None:
            coming = coming if set(free).issuperset(coming) else ()
        taken = tuple(itertools.takewhile(free.__contains__, coming))
        if taken:
            state = with_cut(state, dim, Cut(cut.axes + taken, goal.sizes))
            axes += taken
    return Move("slice", state, tuple(axes)) if axes else None


def _gathers(here: State, ground: Ground) -> Iterator[Move]:
    """Make dims whole over their innermost axes: of one dim, or of all that are to lose some."""
    leaving = [leaving_count(cut, goal) for cut, goal in zip(here.cuts, ground.goal.cuts, strict=True)]
    for dim, most in enumerate(leaving):
        cut = here.cuts[dim]
        fewest = most if cut.sizes is not None else 1
        for count in range(fewest, most + 1) if most else ():
            rest = Cut(cut.axes[: len(cut.axes) - count])
            yield _gather(here, with_cut(here, dim, rest), cut.axes[len(rest.axes) :], dim, ground)
    if sum(count > 0 for count in leaving) > 1:
        axes: list[int] = []
        state = here
        for dim, count in enumerate(leaving):
            cut = here.cuts[dim]
            if count:
                state = with_cut(state, dim, Cut(cut.axes[: len(cut.axes) - count]))
                axes += cut.axes[len(cut.axes) - count :]
        yield _gather(here, state, tuple(axes), None, ground)


def _gather(here: State, there: State, axes: tuple[int, ...], dim: int | None, ground: Ground) -> Move:
    nbytes, n = ground.nbytes(here), ground.size(axes)
    seconds = ground.link(axes).all_gather(nbytes, n)
    return Move("all_gather", there, axes, dim, bytes=sent("all_gather", nbytes, n), seconds=seconds)


def _swaps(here: State, ground: Ground) -> Iterator[Move]:
    """Cut one dim over the axes that another one loses, where they come next there."""
    for dim, (cut, goal) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
        if cut.sizes is not None:
            continue
        for count in range(1, leaving_count(cut, goal) + 1):
            axes = cut.axes[len(cut.axes) - count :]
            for to_dim, (other, wanted) in enumerate(zip(here.cuts, ground.goal.cuts, strict=True)):
                coming = coming_axes(other, wanted)
                if to_dim == dim or wanted.sizes is not None or not coming or coming[:count] != axes:
                    continue
                state = with_cut(here, dim, Cut(cut.axes[: len(cut.axes) - count]))
                state = with_cut(state, to_dim, Cut(other.axes + axes))
                nbytes, n = ground.nbytes(here), ground.size(axes)
                seconds = ground.link(axes).all_to_all(nbytes, n)
                bytes_sent = sent("all_to_all", nbytes, n)
                yield Move("all_to_all", state, axes, dim, to_dim, bytes=bytes_sent, seconds=seconds)


def _exchanged_axes(here: State, there: State) -> tuple[int, ...]:
    """Give the axes along which ranks have to talk to go from cuts to others: all that any cut changes.

    Ranks that differ along no other axes hold together what each of them needs.
    """
    axes: list[int] = []
    for cut, goal in zip(here.cuts, there.cuts, strict=True):
        count = leaving_count(cut, goal)
        if cut != goal:
            kept = len(cut.axes) - count
            axes += cut.axes[kept:] + goal.axes[kept:]
    return tuple(sorted(set(axes)))


def _exchange(here: State, ground: Ground) -> Move:
    """Go to the cuts of the goal at once: each rank gets just what it lacks."""
    state = here._replace(cuts=ground.goal.cuts)
    axes = _exchanged_axes(here, state)
    missing = lacking(layout_of(here, ground.like), layout_of(state, ground.like), axes, _FEW)
    seconds = ground.link(axes).exchange(max(missing), ground.size(axes))
    return Move("exchange", state, axes, bytes=sum(missing) // len(missing), seconds=seconds)


def lacking(source: Layout, target: Layout, axes: tuple[int, ...], most: int) -> list[int]:
    """Give the bytes of the target that ranks do not have in the source.

    Parameters
    ----------
    source, target : Layout
    axes : tuple of int
        The mesh axes that change.
    most : int
        Of how many ranks; where there are more, some that lie apart.
    """
    missing = []
    for at in _some(source.mesh.shape, axes, most):
        wanted = target.box(at)
        both = common(source.box(at), wanted)
        missing.append(math.prod(wanted.shape) - (0 if both is None else math.prod(both.shape)))
    return [count * source.dtype.itemsize for count in missing]


def _some(widths: tuple[int, ...], axes: tuple[int, ...], most: int) -> list[Coordinate]:
    """Give coordinates that differ along some axes: all, or some that lie apart."""
    sizes = [widths[axis] for axis in axes]
    total = math.prod(sizes)
    found = []
    for number in range(total) if total <= most else [i * total // most + i % 2 for i in range(most)]:
        at = [0] * len(widths)
        for axis, width in zip(reversed(axes), reversed(sizes), strict=True):
            number, at[axis] = divmod(number, width)
        found.append(tuple(at))
    return found
