"""The moves that end terms, by reductions into all or into pieces; and the one that makes terms of pieces."""

from __future__ import annotations

from collections.abc import Iterator

from shardwise.dtensor.redistribute.ground import Ground, Move, coming_axes, free_axes, sent, with_cut
from shardwise.dtensor.redistribute.state import Cut, State, Terms, local_shape

__all__ = ["embeddings", "pending_terms", "reduced", "reductions"]

_LINEAR = ("sum", "avg")


def pending_terms(here: State, ground: Ground) -> Terms:
    """Give the terms that are still to be reduced."""
    return tuple([term for term in here.terms if term not in ground.goal.terms])


def reductions(here: State, pending: Terms, ground: Ground) -> Iterator[Move]:
    """Reduce terms along one axis, or along several that one reduction takes; into all, or into pieces.

    Pieces are made where the goal has them next. Where it has none, they shorten the longest dim: what
    follows then moves less. Pieces anywhere else would only have to be moved again. Ranks that have the
    same terms may share the work: each keeps a part of them first, and they gather the results.
    """
    axes = tuple([axis for axis, _ in pending])
    together = len({op for _, op in pending}) == 1 or all(op in _LINEAR for _, op in pending)
    taken: list[tuple[int, ...]] = [(axis,) for axis in axes]
    if together:
        taken += [axes[:count] for count in range(2, len(axes) + 1)]
    shared = free_axes(here, ground)
    for place in _dims(here, ground) if shared else ():
        cut = Cut(here.cuts[place].axes + shared)
        yield Move("slice", with_cut(here, place, cut), shared)
    for each in taken:
        yield _all_reduce(here, each, ground)
        for dim, pieces, sizes in _places(here, each, ground):
            yield _reduce_scatter(here, each, dim, Cut(here.cuts[dim].axes + pieces, sizes), ground)


def reduced(here: State, ground: Ground) -> Move:
    """Reduce all terms, into pieces along the longest dim: fewer bytes than into all, now and later."""
    axes = tuple([axis for axis, _ in here.terms])
    dim = _longest(here, ground)
    if dim is None:
        return _all_reduce(here, axes, ground)
    return _reduce_scatter(here, axes, dim, Cut(here.cuts[dim].axes + axes), ground)


def embeddings(here: State, ground: Ground) -> Iterator[Move]:
    """Make a piece one of the terms, with nothing around it."""
    goal = dict(ground.goal.terms)
    for dim, cut in enumerate(here.cuts):
        if cut.axes and cut.sizes is None and cut.axes[-1] in goal:
            axis = cut.axes[-1]
            terms = tuple(sorted([*here.terms, (axis, goal[axis])]))
            state = with_cut(here, dim, Cut(cut.axes[:-1]))._replace(terms=terms)
            yield Move("partition", state, (axis,), dim, None, goal[axis])


def _places(
    here: State, axes: tuple[int, ...], ground: Ground
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...] | None]]:
    """Give the dims along which a reduction may leave pieces, the order of the axes, and sizes if given."""
    goals = ground.goal.cuts
    found = set()
    for dim, (cut, goal) in enumerate(zip(here.cuts, goals, strict=True)):
        coming = coming_axes(cut, goal) or ()
        if set(coming[: len(axes)]) == set(axes) and (goal.sizes is None or len(coming) == len(axes)):
            found.add(dim)
            yield dim, coming[: len(axes)], goal.sizes
    others = _dims(here, ground)
    if not ground.is_small:
        wanted = [dim for dim, goal in enumerate(goals) if axes[0] in goal.axes]
        others = [] if found else [dim for dim in wanted if here.cuts[dim].sizes is None][:1] or others
    for dim in others:
        if dim not in found:
            yield dim, axes, None


def _dims(here: State, ground: Ground) -> list[int]:
    """Give the dims to try: those that can be cut; on a large mesh only the longest one."""
    longest = _longest(here, ground)
    if longest is None or not ground.is_small:
        return [] if longest is None else [longest]
    return [dim for dim, cut in enumerate(here.cuts) if cut.sizes is None]


def _longest(here: State, ground: Ground) -> int | None:
    """Give the dim that the largest local array is longest in, if it can be cut."""
    lengths = local_shape(here, ground.like.shape, ground.mesh)
    dims = [dim for dim, cut in enumerate(here.cuts) if cut.sizes is None and lengths[dim] > 1]
    return max(dims, key=lambda dim: (lengths[dim], -dim), default=None)


def _all_reduce(here: State, axes: tuple[int, ...], ground: Ground) -> Move:
    op, divisor, state = _combined(here, axes, ground)
    nbytes, n = ground.nbytes(here), ground.size(axes)
    seconds = ground.link(axes).all_reduce(nbytes, n)
    return Move("all_reduce", state, axes, None, None, op, divisor, sent("all_reduce", nbytes, n), seconds)


def _reduce_scatter(here: State, axes: tuple[int, ...], dim: int, cut: Cut, ground: Ground) -> Move:
    op, divisor, state = _combined(here, axes, ground)
    pieces = cut.axes[len(here.cuts[dim].axes) :]
    nbytes, n = ground.nbytes(here), ground.size(axes)
    seconds = ground.link(axes).reduce_scatter(nbytes, n)
    bytes_sent = sent("reduce_scatter", nbytes, n)
    there = with_cut(state, dim, cut)
    return Move("reduce_scatter", there, pieces, dim, None, op, divisor, bytes_sent, seconds)


def _combined(here: State, axes: tuple[int, ...], ground: Ground) -> tuple[str, int, State]:
    """Give the reduction of terms along some axes, what to divide by then, and the state without them."""
    ops = dict(here.terms)
    kinds = {ops[axis] for axis in axes}
    state = here._replace(terms=tuple([term for term in here.terms if term[0] not in axes]))
    if len(kinds) == 1:
        return kinds.pop(), 1, state
    return "sum", ground.size(tuple([axis for axis in axes if ops[axis] == "avg"])), state
