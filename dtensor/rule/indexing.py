"""Indexing by arrays of integers, and assignment, where a dim that they name places of is cut."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Placement, Replicate, Shard
from shardwise.dtensor.rule.case import Case, Perform, Play, lengths
from shardwise.dtensor.rule.key import (
    Here,
    Place,
    by_dim,
    chosen_in,
    flat_shape,
    here_of,
    is_whole,
    lead_of,
    names_places,
)
from shardwise.dtensor.rule.lookup import table_layout, terms_layout
from shardwise.dtensor.rule.mask import masked, replica
from shardwise.dtensor.rule.slicing import sliced_sizes
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Gradients
from shardwise.tensor.ops import index, repetition
from shardwise.tensor.ops.key import index_terms, kept_index, spelled_index, taken_dims
from shardwise.tensor.ops.letter import LETTERS
from shardwise.tensor.signature import Part

__all__ = ["index_rule", "put_rule"]


class IndexPart(index.Index):
    """The elements that a part has, and zeros for the others."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {**params, "at": Place(inputs[0].offset, inputs[0].whole)}

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any, at: Place | None = None) -> Array:
        ctx.at = at
        if at is None:
            return _INDEX.forward(ctx, a, index)
        here = ctx.here = here_of(index, a.shape, at)
        ctx.shape = a.shape
        found = a[here.key]
        lead = here.lead
        out = np.zeros_like(a, shape=(*found.shape[:lead], math.prod(here.block), *found.shape[lead + 1 :]))
        out[chosen_in(here)] = found
        return out.reshape(*found.shape[:lead], *here.block, *found.shape[lead + 1 :])

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if ctx.at is None:
            return _INDEX.backward(ctx, g)
        here: Here = ctx.here
        rows = np.reshape(g, flat_shape(here, g.shape))[chosen_in(here)]
        return (index.Unindex.apply(rows, shape=ctx.shape, index=here.key),)


_INDEX = index.Index


class PutPart(index.IndexPut):
    """Values written into a part, as far as they belong there."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {**params, "at": Place(inputs[0].offset, inputs[0].whole)}

    @staticmethod
    def forward(
        ctx: Context, a: Array, values: Any, index: Any, in_place: bool = False, at: Place | None = None
    ) -> Array:
        ctx.at = at
        if at is None:
            return _PUT.forward(ctx, a, values, index, in_place)
        index = kept_index(index) if True in ctx.need else index
        here = ctx.here = here_of(index, a.shape, at)
        ctx.values_shape = np.shape(values)
        out = a if in_place else a.copy()
        room = out[here.key].shape
        ctx.result = (*room[: here.lead], *here.block, *room[here.lead + _one(here) :])
        out[here.key] = _written(here, values, ctx.result)
        return out

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if ctx.at is None:
            return _PUT.backward(ctx, g)
        here: Here = ctx.here
        dvalues = None
        if ctx.need[1]:
            dvalues = _values_gradient(ctx, index.Pick.apply(g, index=here.key), g)
        return _PUT.apply(g, 0.0, index=here.key) if ctx.need[0] else None, dvalues


_PUT = index.IndexPut


class AddPart(index.IndexAdd):
    """Values added to a part, as far as they belong there."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {**params, "at": Place(inputs[0].offset, inputs[0].whole)}

    @staticmethod
    def forward(ctx: Context, a: Array, values: Any, index: Any, at: Place | None = None) -> Array:
        ctx.at = at
        if at is None:
            return _ADD.forward(ctx, a, values, index)
        index = kept_index(index) if True in ctx.need else index
        here = ctx.here = here_of(index, a.shape, at)
        ctx.values_shape = np.shape(values)
        room = a[here.key].shape
        ctx.result = (*room[: here.lead], *here.block, *room[here.lead + _one(here) :])
        if not hasattr(values, "dtype"):
            values = np.full_like(a, values, shape=())
        written = np.broadcast_to(_written(here, values, ctx.result), room)
        return a + special.scatter_add(a.shape, here.key, written)

    @staticmethod
    def backward(ctx: Context, g: Any) -> Gradients:
        if ctx.at is None:
            return _ADD.backward(ctx, g)
        here: Here = ctx.here
        dvalues = None
        if ctx.need[1]:
            dvalues = _values_gradient(ctx, index.Index.apply(g, index=here.key), g)
        return g if ctx.need[0] else None, dvalues


_ADD = index.IndexAdd


def _values_gradient(ctx: Context, picked: Any, g: Any) -> Any:
    """Return what was picked of a gradient at its places among those of the values; zeros elsewhere."""
    here: Here = ctx.here
    whole = np.zeros_like(g, shape=flat_shape(here, ctx.result) if _one(here) else ctx.result)
    whole[chosen_in(here) if _one(here) else ...] = picked
    shape = ctx.values_shape
    extra = max(0, len(shape) - len(ctx.result))
    return np.reshape(unbroadcast(np.reshape(whole, ctx.result), shape[extra:]), shape)


def _one(here: Here) -> int:
    """How many dims the arrays have in the part's own result: none if there are no arrays."""
    return int(any(hasattr(part, "dtype") for part in here.key))


def _written(here: Here, values: Any, result: Shape) -> Any:
    if not np.ndim(values) or not _one(here):
        return values
    extra = max(0, np.ndim(values) - len(result))
    full = np.broadcast_to(np.reshape(values, np.shape(values)[extra:]), result)
    return np.reshape(full, flat_shape(here, result))[chosen_in(here)]


# ---- rules


def _plain(key: Any) -> bool:
    """Tell whether an index has no booleans without dims, which are rare and left to replicas."""
    parts = key if isinstance(key, tuple) else (key,)
    return not any(isinstance(part, bool) or getattr(part, "shape", None) == () for part in parts)


def _told(layout: Layout, key: Any) -> list[tuple[int, Any]]:
    """Return which part of an index is for which dim; a mask for all of its dims."""
    told: list[tuple[int, Any]] = []
    dim = 0
    for part in spelled_index(key, layout.ndim):
        told += [(dim + i, part) for i in range(taken_dims(part))]
        dim += taken_dims(part)
    return told


def index_rule(case: Case) -> Strategy | Play | None:
    """Look up in parts; slices beside the arrays are taken first."""
    layout, key = case.first, case.params["index"]
    if not _plain(key):
        return None
    told = _told(layout, key)
    if any(dim >= layout.ndim for dim, _ in told):
        return None  # too many indices, as the op itself will say
    told = [(dim, part) for dim, part in told if layout.order[dim] and not is_whole(part)]
    if not told:
        return None
    if any(getattr(part, "dtype", None) == np.bool_ for _, part in _told(layout, key)):
        return _by_mask(layout)
    (result,), _ = case.results()
    sliced = [dim for dim, part in told if isinstance(part, slice)]
    if sliced:
        return _sliced_first(layout, sliced)
    table = table_layout(case)
    if result.size > table.numel or (result.dtype.kind == "b" and (case.tracked or table.partial)):
        return None
    _, after = index_terms(layout.shape, key)
    origin = [LETTERS.index(c) if re.fullmatch("[A-Za-z]", c) else None for c in after]
    cut = [axis for dim, _ in told for axis in layout.order[dim]]
    others: list[Placement] = [Replicate()] * table.mesh.ndim
    return case.strategy([table], [terms_layout(table, result, origin, cut, others)], IndexPart)


def _by_mask(layout: Layout) -> Play:
    """Take what a mask chooses from the parts; beside other arrays, by the places that are true in it."""

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        key = params["index"]
        first, *rest = key if isinstance(key, tuple) else (key,)
        if getattr(first, "dtype", None) == np.bool_ and all(map(is_whole, rest)):
            return masked(perform, args[0], replica(layout.mesh, first))
        return index.Index.apply(args[0], index=tuple(by_dim(key, layout.ndim)))

    return play


def _sliced_first(layout: Layout, dims: Sequence[int]) -> Play:
    """Take slices first, and then what the arrays name; these may be others each time."""

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        first: list[Any] = [slice(None)] * layout.ndim
        then: list[Any] = []
        dim = 0
        for part in spelled_index(params["index"], layout.ndim):
            if dim in dims and isinstance(part, slice):
                first[dim] = part
                part = slice(None)
            then.append(part)
            dim += taken_dims(part)
        return index.Index.apply(index.Slice.apply(args[0], index=tuple(first)), index=tuple(then))

    return play


def put_rule(case: Case) -> Strategy | Play | None:
    """Write into parts; what is written lies like what is chosen, as far as slices choose it."""
    layout, key = case.first, case.params["index"]
    if layout.partial or not _plain(key):
        return None
    told = _told(layout, key)
    if any(dim >= layout.ndim for dim, _ in told):
        return None
    chosen = [(dim, part) for dim, part in told if layout.order[dim] and not is_whole(part)]
    adding = case.function is index.IndexAdd
    if not chosen and not case.params.get("in_place"):
        return None
    case.results()
    backwards = [dim for dim, part in chosen if isinstance(part, slice) and (part.step or 1) < 0]
    if backwards:
        return None if adding else _turned(layout, backwards)
    values = case.layouts[1]
    wanted = None if values is None else _values_layout(layout, key, values)
    return case.strategy([layout, wanted], [layout], AddPart if adding else PutPart)


def _values_layout(layout: Layout, key: Any, values: Layout) -> Layout:
    """Return how values lie beside what they are written into."""
    parts = by_dim(key, layout.ndim)
    lead = lead_of(parts)
    slots: list[tuple[int, Any] | None] = []  # per dim of the result, which slice of which dim it is
    block: list[None] = []
    shapes = [np.shape(part) for part in parts if names_places(part)]
    if shapes:
        block = [None] * len(np.broadcast_shapes(*shapes))
    dim = 0
    for part in parts:
        if part is None:
            slots.append(None)
        elif isinstance(part, slice):
            slots.append((dim, part))
        dim += part is not None and part is not Ellipsis
    slots[lead:lead] = block
    kinds: list[Placement] = [Replicate()] * layout.mesh.ndim
    order: list[tuple[int, ...]] = [()] * values.ndim
    for back in range(1, min(values.ndim, len(slots)) + 1):
        slot, at = slots[-back], values.ndim - back
        if slot is None or values.shape[at] == 1 or not layout.order[slot[0]]:
            continue
        order[at] = layout.order[slot[0]]
        sizes = lengths(layout, slot[0]) if slot[1] == slice(None) else sliced_sizes(layout, slot[0], slot[1])
        for axis in order[at]:
            kinds[axis] = Shard(at, sizes)
    return Layout.of(layout.mesh, tuple(kinds), tuple(order), values.shape, values.dtype)


def _turned(layout: Layout, dims: Sequence[int]) -> Play:
    """Write values that are turned around to the same places forwards."""

    def play(perform: Perform, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        x, values, *rest = args
        forwards, turned, ndim = _forwards(layout, params["index"], dims)
        shape = getattr(values, "shape", ())
        flips = [d - ndim + len(shape) for d in turned]
        flips = [d for d in flips if d >= 0 and shape[d] != 1]
        if flips:
            values = repetition.Flip.apply(values, dims=tuple(flips))
        return index.IndexPut.apply(x, values, *rest, **{**params, "index": tuple(forwards)})

    return play


def _forwards(layout: Layout, key: Any, dims: Sequence[int]) -> tuple[list[Any], list[int], int]:
    """Return an index of the same places forwards, the dims of the result that are turned, and its ndim."""
    spelled = by_dim(key, layout.ndim)
    block = len(np.broadcast_shapes(*[np.shape(part) for part in spelled if names_places(part)]))
    lead = lead_of(spelled)
    forwards: list[Any] = []
    turned: list[int] = []
    dim = at = 0
    for part in spelled_index(key, layout.ndim):
        if isinstance(part, slice) and dim in dims:
            places = range(*part.indices(layout.shape[dim]))
            part = slice(places[-1], places[0] + 1, -places.step) if places else slice(0, 0)
            turned.append(at + (block if at >= lead else 0))
        forwards.append(part)
        at += part is None or isinstance(part, slice)
        dim += taken_dims(part)
    return forwards, turned, at + block
