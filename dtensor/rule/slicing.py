"""Slices of sharded dims: each rank keeps of its part what is chosen, and nothing is sent.

The pieces that result differ in length; `DTensor.rebalance` evens them. A single place along a sharded dim is
a piece of length one, which its holder hands to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwise.dtensor.layout import Layout
from shardwise.dtensor.rule.case import Case, Perform, Play, carried, without
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.ops import index, repetition
from shardwise.tensor.ops.key import is_basic, spelled_index

__all__ = ["slice_rule", "sliced_sizes", "split_rule", "unindex_rule"]


def sliced_sizes(layout: Layout, dim: int, each: slice) -> tuple[int, ...]:
    """Return how many of the chosen places lie in each piece of a dim; the step is positive."""
    start, stop, step = each.indices(layout.shape[dim])
    count = len(range(start, stop, step))

    def before(place: int) -> int:
        return min(max(-(-(place - start) // step), 0), count)

    return tuple([before(b) - before(a) for a, b in layout.ranges[dim]])


def slice_rule(case: Case) -> Strategy | Play | None:
    """Cut ragged pieces; single places and steps backwards are made of them."""
    layout, key = case.first, case.params["index"]
    parts = _chosen(layout, key)
    if parts is None:
        return None
    (result,), _ = case.results()
    if any(type(part) is int and layout.order[dim] for dim, part in parts):
        return _selecting(layout, key)
    backwards = [dim for dim, part in parts if layout.order[dim] and (part.step or 1) < 0]
    if backwards:
        return _turning(layout, key, backwards)
    source = case.moving(layout)
    origin, sizes = _origins(layout, key)
    return case.strategy([source], [carried(source, result.shape, origin, sizes)])


def _chosen(layout: Layout, key: Any) -> list[tuple[int, Any]] | None:
    """Return what is said of each dim; None if all that are cut are taken whole."""
    parts: list[tuple[int, Any]] = []
    dim = 0
    for part in spelled_index(key, layout.ndim):
        if part is None or part is Ellipsis:
            continue
        if dim >= layout.ndim:
            return None  # too many indices, as the op itself will say
        parts.append((dim, part))
        dim += 1
    return parts if any(layout.order[dim] and part != slice(None) for dim, part in parts) else None


def _origins(layout: Layout, key: Any) -> tuple[list[int | None], dict[int, tuple[int, ...]]]:
    """Return where the dims of a slice come from, and the lengths of the pieces of those that are cut."""
    origin: list[int | None] = []
    sizes: dict[int, tuple[int, ...]] = {}
    dim = 0
    for part in spelled_index(key, layout.ndim):
        if part is Ellipsis:
            continue
        if part is None:
            origin.append(None)
            continue
        if isinstance(part, slice):
            if layout.order[dim]:
                sizes[len(origin)] = sliced_sizes(layout, dim, part)
            origin.append(dim)
        dim += 1
    return origin, sizes


def _selecting(layout: Layout, key: Any) -> Play:
    """Take pieces of length one, make them replicas, and drop their dims."""
    first: list[Any] = []
    then: list[Any] = []
    axes: list[int] = []
    dim = 0
    for part in spelled_index(key, layout.ndim):
        if part is Ellipsis:
            continue
        if type(part) is int and layout.order[dim]:
            place = part % layout.shape[dim]
            first.append(slice(place, place + 1))
            then.append(0)
            axes += layout.order[dim]
        else:
            first.append(part)
            then += [] if type(part) is int else [slice(None)]
        dim += part is not None

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        piece = index.Slice.apply(args[0], index=tuple(first))
        piece = piece.placed_as(without(piece.layout, axes=axes))
        return index.Slice.apply(piece, index=tuple(then))

    return play


def _turning(layout: Layout, key: Any, dims: Sequence[int]) -> Play:
    """Take the same places forwards, and turn around what results."""
    forwards: list[Any] = []
    turned: list[int] = []
    dim = at = 0
    for part in spelled_index(key, layout.ndim):
        if part is None or part is Ellipsis:
            forwards.append(part)
            at += part is None
            continue
        if isinstance(part, slice):
            if dim in dims:
                places = range(*part.indices(layout.shape[dim]))
                part = slice(places[-1], places[0] + 1, -places.step) if places else slice(0, 0)
                turned.append(at)
            at += 1
        forwards.append(part)
        dim += 1

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        piece = index.Slice.apply(args[0], index=tuple(forwards))
        return repetition.Flip.apply(piece, dims=tuple(turned))

    return play


def unindex_rule(case: Case) -> Strategy | Play | None:
    """Put slices back between zeros, piece by piece: what `slice_rule` took apart."""
    key, shape = case.params["index"], case.params["shape"]
    given = case.first
    if not is_basic(key):
        return None
    back: list[int | None] = [None] * len(shape)  # the dim of the slice that each dim was
    dim = at = 0
    whole = True
    for part in spelled_index(key, len(shape)):
        if part is None or part is Ellipsis:
            at += part is None
            continue
        if isinstance(part, slice):
            back[dim] = at
            if given.order[at] and part != slice(None):
                whole = False
                if (part.step or 1) < 0:
                    return None
            at += 1
        dim += 1
    kept = {at for at in back if at is not None}
    if whole or any(axes and at not in kept for at, axes in enumerate(given.order)):
        return None
    source = case.moving(given)
    target = carried(source, shape, back)
    _, sizes = _origins(target, key)
    origin = [at if given.order[at] else None for at in range(given.ndim)]
    wanted = carried(source, given.shape, origin, sizes)
    return case.strategy([wanted], [target])


def split_rule(case: Case) -> Strategy | Play | None:
    """Pieces along a sharded dim are slices."""
    layout = case.first
    dim = case.params["dim"] % max(layout.ndim, 1)
    if not layout.ndim or not layout.order[dim]:
        return None
    case.results()
    before = (slice(None),) * dim

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        pieces, start = [], 0
        for size in params["sizes"]:
            pieces.append(index.Slice.apply(args[0], index=(*before, slice(start, start + size))))
            start += size
        return tuple(pieces)

    return play
