"""Sorting along a sharded dim by samples, and what follows from an order: the best k, distinct values.

Each rank sorts its part and tells the others a few of its values; from these all choose the same bounds, and
each value goes to the rank between whose bounds it lies, equal ones to the same. The result is ragged,
equal to that of sorting the whole.

References
----------
Frazer, McKellar: Samplesort, a sampling approach to minimal storage tree sorting. JACM 17 (1970).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.ranking import sorted_indices
from shardwise.collectives import ProcessGroup, all_gather, implicit
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Shard
from shardwise.dtensor.rule.case import Case, Perform, Play, carried, lengths, without
from shardwise.dtensor.rule.exchange import owners, peers, sent_to
from shardwise.dtensor.rule.mask import agreed_sizes, unknown_outside
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.ops import gather, order, take

__all__ = ["Sorted", "distinct_rule", "sample_sorted", "sort_rule", "sortable", "topk_rule"]

_INT = np.dtype(np.int64)


class Sorted(NamedTuple):
    """This rank's share of the values in order, where they were, how many each rank has, and which it is."""

    keys: Array
    places: Array
    sizes: tuple[int, ...]
    piece: int


def _peers(layout: Layout) -> tuple[ProcessGroup, int]:
    if layout.mesh.get_coordinate() is None:
        raise unknown_outside()
    return peers(layout, 0)


def sample_sorted(local: Array, layout: Layout, descending: bool) -> Sorted:
    """Sort one dim by samples; stable."""
    group, piece = _peers(layout)
    mine = sorted_indices(local, 0, descending)
    keys = local[mine]
    counts = [min(group.size, n) for n in lengths(layout, 0)]
    picked = keys[np.linspace(0, len(keys) - 1, counts[piece]).astype(np.int64)] if len(keys) else keys
    with implicit():
        samples = all_gather(picked, group, sizes=counts)
    samples = np.sort(samples)
    bounds = samples[np.linspace(0, len(samples), group.size + 1)[1:-1].astype(np.int64)]
    # NaN is the largest for both.
    owner = np.searchsorted(bounds, keys, side="left")
    if descending:
        owner = group.size - 1 - owner
    places = mine + layout.ranges[0][piece][0]
    came = sent_to(group, piece, keys, owner).rows
    from_where = sent_to(group, piece, places, owner).rows
    inner = sorted_indices(came, 0, descending)
    return Sorted(came[inner], from_where[inner], agreed_sizes(layout, 0, len(inner)), piece)


def _ragged(local: Array, layout: Layout, sizes: tuple[int, ...]) -> Any:
    """Return pieces of one dim as a DTensor that is cut where another is."""
    kinds = tuple([Shard(0, sizes) if isinstance(p, Shard) else p for p in layout.placements])
    whole = Layout.of(layout.mesh, kinds, layout.order, (sum(sizes),), local.dtype)
    return ShardedArray.tensor_class(ShardedArray(local, whole))


def sortable(layout: Layout) -> bool:
    """Tell whether a tensor has one dim, which is cut, of numbers that have an order."""
    return layout.ndim == 1 and bool(layout.order[0]) and layout.dtype.kind in "iufb" and layout.numel > 0


def sort_rule(case: Case) -> Play | None:
    """Sort the only dim by samples; where there are others, one of these is cut instead."""
    if not sortable(case.first):
        return None
    case.results()
    layout = case.first.reduced()
    descending = bool(case.params.get("descending", False))
    only_places = case.function is order.Argsort

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0].placed_as(layout)
        found = sample_sorted(x.data.local, layout, descending)
        places = _ragged(found.places, layout, found.sizes)
        return places if only_places else (take.IndexSelect.apply(x, places, dim=0), places)

    return play


def topk_rule(case: Case) -> Play | None:
    """Let each rank name its best, and choose from those: of ties the first."""
    layout, k = case.first, case.params["k"]
    if not layout.ndim:
        return None
    dim = case.params.get("dim", -1) % layout.ndim
    axes = layout.order[dim]
    if not axes or layout.numel == 0:
        return None
    case.results()
    layout = layout.reduced()
    sizes = [min(k, n) for n in lengths(layout, dim)]
    if k == 0 or sum(sizes) >= layout.shape[dim]:
        return None
    largest = case.params.get("largest", True)
    shape = (*layout.shape[:dim], sum(sizes), *layout.shape[dim + 1 :])
    some = carried(layout, shape, range(layout.ndim), {dim: sizes})
    all_of_it = without(some, [dim])
    final = (*layout.shape[:dim], k, *layout.shape[dim + 1 :])
    chosen = without(carried(layout, final, [None if d == dim else d for d in range(layout.ndim)]), axes=axes)
    kind = ShardedArray.tensor_class

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0].placed_as(layout)
        local = x.data.local
        here = layout.mesh.get_coordinate()
        if here is None:
            names = kind(ShardedArray(np.empty(0, _INT), chosen.with_dtype(_INT)))
            return gather.Gather.apply(x, names, dim=dim), names
        best = special.top_indices(local, min(k, local.shape[dim]), dim, largest)
        values = np.take_along_axis(local, best, axis=dim)
        start = layout.box(here).offset[dim] if local.shape[dim] else 0
        values = kind(ShardedArray(values, some)).placed_as(all_of_it).data.local
        lies = some.with_dtype(_INT)
        places = kind(ShardedArray(best.astype(_INT) + start, lies))
        places = places.placed_as(all_of_it.with_dtype(_INT)).data.local
        at = special.top_indices(values, k, dim, largest)
        names = kind(ShardedArray(np.take_along_axis(places, at, axis=dim), chosen.with_dtype(_INT)))
        return gather.Gather.apply(x, names, dim=dim), names

    return play


# ---- distinct values


def distinct_rule(case: Case) -> Play | None:
    """Sort by samples, after which equal values are on one rank; or join runs as they stand."""
    if not sortable(case.first):
        return None
    layout = case.first.reduced()
    consecutive = bool(case.params.get("consecutive", False))
    equal_nan = bool(case.params.get("equal_nan", False))

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x = args[0].detach().placed_as(layout)
        if consecutive:
            return _runs(x.data.local, layout)
        return _distinct(x.data.local, layout, equal_nan)

    return play


def _distinct(local: Array, layout: Layout, equal_nan: bool) -> Any:
    group, piece = _peers(layout)
    found = sample_sorted(local, layout, False)
    keys = found.keys
    new = np.ones(len(keys), bool)
    same = keys[1:] == keys[:-1]
    if equal_nan:
        same |= (keys[1:] != keys[1:]) & (keys[:-1] != keys[:-1])
    new[1:] = ~same
    first = np.flatnonzero(new)
    sizes = agreed_sizes(layout, 0, len(first))
    counts = np.diff(np.append(first, len(keys)))
    number = np.cumsum(new) - 1 + sum(sizes[:piece])
    rows = np.stack((found.places, number), axis=1).astype(_INT)
    came = sent_to(group, piece, rows, owners(layout, 0, found.places)).rows
    inverse = np.empty(len(local), _INT)
    inverse[came[:, 0] - layout.ranges[0][piece][0]] = came[:, 1]
    return (
        _ragged(found.places[first].astype(_INT), layout, sizes),
        _ragged(inverse, layout, lengths(layout, 0)),
        _ragged(counts.astype(_INT), layout, sizes),
    )


def _runs(local: Array, layout: Layout) -> Any:
    """Find where values change, also between this piece and the one before."""
    group, piece = _peers(layout)
    held = lengths(layout, 0)
    with implicit():
        ends = all_gather(local[-1:], group, sizes=[min(n, 1) for n in held])
    start = layout.ranges[0][piece][0]
    new = np.ones(len(local), bool)
    new[1:] = local[1:] != local[:-1]
    before = sum(1 for n in held[:piece] if n)
    if before and len(local):
        new[0] = bool(local[0] != ends[before - 1])
    first = np.flatnonzero(new)
    sizes = agreed_sizes(layout, 0, len(first))
    with implicit():
        heads = all_gather((first[:1] + start).astype(_INT), group, sizes=[min(n, 1) for n in sizes])
    after = sum(1 for n in sizes[: piece + 1] if n)
    end = int(heads[after]) if after < len(heads) else layout.shape[0]
    counts = np.diff(np.append(first + start, end)) if len(first) else first
    return (
        _ragged((first + start).astype(_INT), layout, sizes),
        _ragged((np.cumsum(new) - 1 + sum(sizes[:piece])).astype(_INT), layout, held),
        _ragged(counts.astype(_INT), layout, sizes),
    )
