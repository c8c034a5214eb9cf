"""Pieces with the edges of their neighbours: each rank is sent just what it lacks.

Pieces that overlap are a tensor again: all of them one after the other, longer along the dim, in ragged
shards. Who needs what follows from the layout, so one exchange does it, and its adjoint is one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.shape import ShapeArray
from shardwise.collectives import all_to_all_single, get_world, implicit
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.redistribute.box import line
from shardwise.dtensor.rule.case import Case, carried
from shardwise.dtensor.strategy import Strategy, finished
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["Halo", "HaloMode", "HaloSum", "Ranges", "halo_rule", "halo_strategy"]

HaloMode: TypeAlias = Literal["constant", "edge", "reflect", "wrap"]
Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Halo(Function):
    """The places of a dim that each rank wants, one rank's after the other's.

    Places before the first and behind the last are a constant, or taken from inside as `numpy.pad` does it.
    """

    exact = True

    @staticmethod
    def signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
        """Along the dim every place must be known."""
        ndim, dim = len(shapes[0]), params["dim"]
        return f"{term(ndim, {dim: LETTERS[dim]})}->{term(ndim, {dim: LETTERS[ndim]})}"

    @staticmethod
    def forward(
        ctx: Context,
        a: Array,
        dim: int,
        lies: Layout,
        wanted: Ranges,
        mode: HaloMode = "constant",
        value: float = 0.0,
    ) -> Array:
        ctx.given = {"dim": dim, "lies": lies, "wanted": wanted, "mode": mode}
        way = _way(lies, dim, wanted, mode, lies.mesh.get_coordinate() or ())
        if isinstance(a, ShapeArray):
            return np.zeros_like(a, shape=(*a.shape[:dim], way.length, *a.shape[dim + 1 :]))
        rows = np.moveaxis(a, dim, 0)
        came = _exchanged(np.ascontiguousarray(rows[way.goes]), way.sent, way.received, way.ranks)
        out = np.full_like(a, value, shape=(way.length, *rows.shape[1:]))
        out[way.kept_at] = rows[way.kept]
        out[way.comes_at] = came
        return np.ascontiguousarray(np.moveaxis(out, 0, dim))

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        return (HaloSum.apply(g, **ctx.given),)


class HaloSum(Function):
    """The adjoint of `Halo`: what was taken from a place is added up there."""

    exact = True
    linear = "all"

    @staticmethod
    def signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
        """Along the dim every place must be known."""
        return Halo.signature(shapes, params)

    @staticmethod
    def forward(
        ctx: Context, g: Array, dim: int, lies: Layout, wanted: Ranges, mode: HaloMode = "constant"
    ) -> Array:
        ctx.given = {"dim": dim, "lies": lies, "wanted": wanted, "mode": mode}
        here = lies.mesh.get_coordinate() or ()
        count = lies.box(here).shape[dim]
        if isinstance(g, ShapeArray):
            return np.zeros_like(g, shape=(*g.shape[:dim], count, *g.shape[dim + 1 :]))
        way = _way(lies, dim, wanted, mode, here)
        rows = np.moveaxis(g, dim, 0)
        back = _exchanged(np.ascontiguousarray(rows[way.comes_at]), way.received, way.sent, way.ranks)
        out = np.zeros_like(g, shape=(count, *rows.shape[1:]))
        np.add.at(out, way.kept, rows[way.kept_at])
        np.add.at(out, way.goes, back)
        return np.ascontiguousarray(np.moveaxis(out, 0, dim))

    @staticmethod
    def backward(ctx: Context, h: Any) -> Gradients:
        return (Halo.apply(h, **ctx.given),)


class _Way(NamedTuple):
    """What one rank sends and gets, in places of its part and of its result."""

    ranks: tuple[int, ...]
    length: int
    goes: Array
    sent: tuple[int, ...]
    comes_at: Array
    received: tuple[int, ...]
    kept: Array
    kept_at: Array


def _source(wanted: tuple[int, int], n: int, mode: HaloMode) -> Array:
    """Return the place in the whole that each wanted one is taken from; -1 for a constant."""
    places = np.arange(*wanted)
    if mode == "wrap":
        return places % max(n, 1)
    if mode == "edge":
        return np.clip(places, 0, n - 1)
    if mode == "reflect":
        period = max(2 * (n - 1), 1)
        places = np.abs(places) % period
        return np.where(places >= n, period - places, places)
    return np.where((places >= 0) & (places < n), places, -1)


@lru_cache(maxsize=256)
def _way(lies: Layout, dim: int, wanted: Ranges, mode: HaloMode, here: tuple[int, ...]) -> _Way:
    axes = lies.order[dim]
    members = line(lies.mesh, here, axes)
    mine = members.index(here)
    pieces = lies.ranges[dim]
    sources = [_source(each, lies.shape[dim], mode) for each in wanted]

    def held(source: Array, piece: int) -> Array:
        start, stop = pieces[piece]
        return np.flatnonzero((source >= start) & (source < stop))

    start = pieces[mine][0]
    goes = [
        sources[q][held(sources[q], mine)] - start if q != mine else np.empty(0, np.int64)
        for q in range(len(members))
    ]
    comes = [held(sources[mine], q) if q != mine else np.empty(0, np.int64) for q in range(len(members))]
    kept_at = held(sources[mine], mine)
    return _Way(
        tuple([int(lies.mesh.mesh[at]) for at in members]),
        wanted[mine][1] - wanted[mine][0],
        np.concatenate(goes),
        tuple(map(len, goes)),
        np.concatenate(comes),
        tuple(map(len, comes)),
        sources[mine][kept_at] - start,
        kept_at,
    )


def _exchanged(rows: Array, sent: Sequence[int], received: Sequence[int], ranks: tuple[int, ...]) -> Array:
    with implicit():
        return all_to_all_single(rows, received, sent, get_world().group(ranks))


def halo_rule(case: Case) -> Strategy:
    """Exchange between pieces that lie as the parameters say, whatever has come of the tensor meanwhile."""
    params = case.params
    lies = params["lies"].with_dtype(case.first.dtype)
    longer = with_halos(lies, params["dim"], params["wanted"])
    if case.function is Halo:
        return case.strategy([lies], [longer])
    return case.strategy([longer], [lies])


def halo_strategy(layout: Layout, given: Layout, dim: int, wanted: Ranges) -> Strategy:
    """Return how `Halo` runs on a tensor that lies like `layout`, brought there from `given`.

    Parameters
    ----------
    layout, given : Layout
    dim : int
        One that is cut.
    wanted : tuple of (start, stop)
        Per piece which places it wants; they may lie outside.
    """
    return finished(Halo, (layout,), (given,), (with_halos(layout, dim, wanted),), False)


def with_halos(layout: Layout, dim: int, wanted: Ranges) -> Layout:
    """Return the layout of the pieces with their halos, one after the other."""
    sizes = [stop - start for start, stop in wanted]
    shape = (*layout.shape[:dim], sum(sizes), *layout.shape[dim + 1 :])
    return carried(layout, shape, range(layout.ndim), {dim: sizes})
