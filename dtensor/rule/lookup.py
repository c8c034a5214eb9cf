"""Look-ups in a table that is cut along the dim that is looked up.

Each rank finds what it holds and zeros for the rest, which gives terms of a sum: the table stays where it is,
and so does its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.dtensor.layout import Layout
from shardwise.dtensor.placement import Partial, PartialOp, Placement, Replicate, Shard
from shardwise.dtensor.rule.case import Case, Play
from shardwise.dtensor.rule.exchange import fetch_rule
from shardwise.dtensor.strategy import Strategy
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops import embedding, gather, index, take
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.signature import Part

__all__ = ["among", "embedding_rule", "gather_rule", "select_rule", "table_layout", "terms_layout"]


def among(index: Array, start: int, length: int, whole: int) -> tuple[Array, Array]:
    """Tell which places lie in a part of a dim, and where there; zero for the others.

    Parameters
    ----------
    index : array of int
        Negative ones count from the end of the whole.
    start, length, whole : int
        Of the part, and the length of the whole.
    """
    places = np.where(index < 0, index + whole, index) - start
    here = (places >= 0) & (places < length)
    return here, np.where(here, places, 0)


def _only(mask: Array, values: Array) -> Array:
    """Return values where a mask is true, else zeros; NaN is not kept."""
    if isinstance(values, np.generic):  # one place of a vector
        values = np.asarray(values)
    return np.where(mask, values, np.zeros((), values.dtype, like=values))


def _start(dim: int, params: dict[str, Any], table: Part) -> dict[str, Any]:
    return {**params, "at": (table.offset[dim], table.whole[dim])}


class SelectPart(take.IndexSelect):
    """The slices that a part of a table has, and zeros for the others."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return _start(params["dim"] % len(inputs[0].whole), params, inputs[0])

    @staticmethod
    def forward(
        ctx: Context, a: Array, index: Array, dim: int, negative: bool = False, at: Any = None
    ) -> Array:
        ctx.at = at
        if at is None:
            return take.IndexSelect.forward(ctx, a, index, dim, negative)
        ctx.dim, ctx.size = dim % a.ndim, a.shape[dim]
        check_index("index_select", index, at[1], ctx.dim, negative)
        ctx.save(index)
        mask, places = _spread_over(ctx, index, a.ndim)
        if not ctx.size:
            shape = (*a.shape[: ctx.dim], *index.shape, *a.shape[ctx.dim + 1 :])
            return np.zeros_like(a, shape=shape)
        return _only(mask, np.take(a, places, axis=ctx.dim))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if ctx.at is None:
            return take.IndexSelect.backward(ctx, g)
        (index,) = ctx.saved
        ndim = g.ndim - index.ndim + 1
        mask, places = _spread_over(ctx, index, ndim)
        if not ctx.size:
            shape = (*g.shape[: ctx.dim], 0, *g.shape[ctx.dim + index.ndim :])
            return np.zeros_like(g, shape=shape), None
        return take.Unselect.apply(_only(mask, g), places, size=ctx.size, dim=ctx.dim), None


def _spread_over(ctx: Context, index: Array, ndim: int) -> tuple[Array, Array]:
    here, places = among(index, ctx.at[0], ctx.size, ctx.at[1])
    rest = (1,) * (ndim - ctx.dim - 1)
    return np.reshape(here, ((1,) * ctx.dim + index.shape + rest)), places


class GatherPart(gather.Gather):
    """The elements that a part of an array has, and zeros for the others."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return _start(params["dim"] % len(inputs[0].whole), params, inputs[0])

    @staticmethod
    def forward(
        ctx: Context, a: Array, index: Array, dim: int, negative: bool = False, at: Any = None
    ) -> Array:
        ctx.at = at
        if at is None:
            return gather.Gather.forward(ctx, a, index, dim, negative)
        ctx.dim, ctx.shape = dim % a.ndim, a.shape
        check_index("gather", index, at[1], ctx.dim, negative)
        ctx.save(index)
        here, places = among(index, at[0], a.shape[ctx.dim], at[1])
        if not a.shape[ctx.dim]:
            return np.zeros_like(a, shape=index.shape)
        return _only(here, gather.Gather.forward(Context((False,)), a, places, ctx.dim))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if ctx.at is None:
            return gather.Gather.backward(ctx, g)
        (index,) = ctx.saved
        if not ctx.shape[ctx.dim]:
            return np.zeros_like(g, shape=ctx.shape), None
        here, places = among(index, ctx.at[0], ctx.shape[ctx.dim], ctx.at[1])
        return gather.Ungather.apply(_only(here, g), places, shape=ctx.shape, dim=ctx.dim), None


class EmbeddingPart(index.Embedding):
    """The rows that a part of a vocabulary has, and zeros for the others."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return _start(0, params, inputs[0])

    @staticmethod
    def forward(ctx: Context, weight: Array, index: Array, at: Any = None) -> Array:
        ctx.at = at
        if at is None:
            return _EMBEDDING.forward(ctx, weight, index)
        ctx.rows = weight.shape[0]
        ctx.save(index)
        return _rows(weight, index, at)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if ctx.at is None:
            return _EMBEDDING.backward(ctx, g)
        (index,) = ctx.saved
        return _row_gradient(ctx, g, index), None


class WeighedEmbeddingPart(embedding.WeighedEmbedding):
    """The same, of which the gradient of each look-up is multiplied by a factor."""

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return _start(0, params, inputs[0])

    @staticmethod
    def forward(ctx: Context, weight: Array, index: Array, factor: Array, at: Any = None) -> Array:
        ctx.at = at
        if at is None:
            return embedding.WeighedEmbedding.forward(ctx, weight, index, factor)
        ctx.rows = weight.shape[0]
        ctx.save(index, factor)
        return _rows(weight, index, at)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if ctx.at is None:
            return embedding.WeighedEmbedding.backward(ctx, g)
        index, factor = ctx.saved
        return _row_gradient(ctx, g * np.expand_dims(factor, -1), index), None, None


_EMBEDDING = index.Embedding


def _rows(weight: Array, index: Array, at: Any) -> Array:
    check_index("embedding", index, at[1], 0, True)
    here, places = among(index, at[0], weight.shape[0], at[1])
    if not weight.shape[0]:
        return np.zeros_like(weight, shape=(*index.shape, weight.shape[1]))
    return _only(np.expand_dims(here, -1), np.take(weight, places, axis=0))


def _row_gradient(ctx: Context, g: Array, index: Array) -> Array:
    here, places = among(index, ctx.at[0], ctx.rows, ctx.at[1])
    if not ctx.rows:
        return np.zeros_like(g, shape=(0, g.shape[-1]))
    return embedding_backward(_only(np.expand_dims(here, -1), g), places, ctx.rows)


# ---- rules


def terms_layout(
    table: Layout, result: Any, origin: Sequence[int | None], cut: Sequence[int], others: Sequence[Placement]
) -> Layout:
    """Return the layout of a result that is a sum of terms along the axes that cut what is looked up.

    Parameters
    ----------
    table : Layout
    result : array without data
    origin : sequence of (int or None)
        Per dim of the result the dim of the table that it is.
    cut : sequence of int
        The axes along which there are terms.
    others : sequence of Placement
        Per axis how the result lies where the table is a replica.
    """
    kinds: list[Placement] = list(others)
    order: list[tuple[int, ...]] = [
        tuple([axis for axis, p in enumerate(others) if isinstance(p, Shard) and p.dim == d])
        for d in range(len(origin))
    ]
    op: PartialOp = "max" if result.dtype.kind == "b" else "sum"
    for d, source in enumerate(origin):
        axes = () if source is None else table.order[source]
        for axis in axes:
            placement = table.placements[axis]
            kinds[axis] = Shard(d, placement.sizes if isinstance(placement, Shard) else None)
        order[d] = (*axes, *order[d])
    for axis, placement in enumerate(table.placements):
        if axis in cut:
            kinds[axis] = Partial(op)
        elif isinstance(placement, Partial):
            kinds[axis] = placement
    return Layout.of(table.mesh, tuple(kinds), tuple(order), result.shape, result.dtype)


def table_layout(case: Case) -> Layout:
    """Return how the table may stay: sums pass through, other reductions are made first."""
    layout = case.first
    kinds = [Replicate() if isinstance(p, Partial) and p.reduce_op != "sum" else p for p in layout.placements]
    return Layout.of(layout.mesh, tuple(kinds), layout.order, layout.shape, layout.dtype)


def _index_layout(table: Layout, places: Layout) -> Layout:
    """Return the layout of an index that is cut only along axes on which the table is a replica."""
    free = [isinstance(p, Replicate) for p in table.placements]
    gone = [axis for axis in range(table.mesh.ndim) if not free[axis] or axis in places.partial]
    order = tuple([tuple([axis for axis in axes if axis not in gone]) for axes in places.order])
    kinds: list[Placement] = [Replicate()] * table.mesh.ndim
    for dim, axes in enumerate(order):
        for axis in axes:
            before = places.placements[axis]
            same = axes == places.order[dim] and isinstance(before, Shard)
            kinds[axis] = Shard(dim, before.sizes if same and isinstance(before, Shard) else None)
    return Layout.of(table.mesh, tuple(kinds), order, places.shape, places.dtype)


def _looked_up(
    case: Case, dim: int, function: type[Function], places_at: int, stays: bool = False
) -> Strategy | None:
    """Return the strategy of taking slices along `dim`; the dims of the index then stand at `places_at`.

    A table that is smaller than the result goes to where it is needed, unless it `stays`.
    """
    table, places = case.first, case.layouts[1]
    if places is None or not table.order[dim]:
        return None
    (result,), _ = case.results()
    if (result.size > table.numel and not stays) or (result.dtype.kind == "b" and case.tracked):
        return None
    table = table_layout(case)
    if result.dtype.kind == "b" and table.partial:
        return None
    index_layout = _index_layout(table, places)
    origin: list[int | None] = [*range(dim), *[None] * places.ndim, *range(dim + 1, table.ndim)]
    others: list[Placement] = [
        Shard(p.dim + places_at, p.sizes) if isinstance(p, Shard) else Replicate()
        for p in index_layout.placements
    ]
    target = terms_layout(table, result, origin, table.order[dim], others)
    factors = [  # one for each place
        None if each is None else index_layout.with_dtype(each.dtype) for each in case.layouts[2:]
    ]
    return case.strategy([table, index_layout, *factors], [target], function)


def select_rule(case: Case) -> Strategy | Play | None:
    """Take slices from a part, where the dim is cut and the result is no larger than the whole.

    Where the index is cut alike, each rank asks the others for what it wants.
    """
    dim = case.params["dim"] % case.first.ndim
    fetched = fetch_rule(case, dim)
    if fetched is not None:
        return fetched
    return _looked_up(case, dim, SelectPart, dim)


def embedding_rule(case: Case) -> Strategy | None:
    """Look up rows in a part of the vocabulary."""
    weighed = case.function is embedding.WeighedEmbedding
    if (
        weighed
        and case.layouts[2] is not None
        and case.layouts[2].shape != getattr(case.layouts[1], "shape", 0)
    ):
        return None
    # Vocabularies are cut to stay so: whoever cut one counts on sums, whatever the batch is.
    return _looked_up(case, 0, WeighedEmbeddingPart if weighed else EmbeddingPart, 0, stays=True)


def gather_rule(case: Case) -> Strategy | None:
    """Gather from a part, where the dim is cut and the result is no larger than the whole."""
    table, places = case.first, case.layouts[1]
    dim = case.params["dim"] % max(table.ndim, 1)
    if places is None or not table.ndim or not table.order[dim]:
        return None
    (result,), _ = case.results()
    if result.size > table.numel or (result.dtype.kind == "b" and case.tracked):
        return None
    table = table_layout(case)
    if result.dtype.kind == "b" and table.partial:
        return None
    other = [d for d in range(table.ndim) if d != dim]
    if any(table.order[d] and table.shape[d] != places.shape[d] for d in other):
        return None
    kinds: list[Placement] = [Replicate()] * table.mesh.ndim
    for d in other:
        for axis in table.order[d]:
            kinds[axis] = table.placements[axis]
    order = tuple([axes if d != dim else () for d, axes in enumerate(table.order)])
    index_layout = Layout.of(table.mesh, tuple(kinds), order, places.shape, places.dtype)
    origin = [None if d == dim else d for d in range(table.ndim)]
    others: list[Placement] = [Replicate()] * table.mesh.ndim
    target = terms_layout(table, result, origin, table.order[dim], others)
    return case.strategy([table, index_layout], [target], GatherPart)
