"""The largest and the smallest over dims that lie in parts, and where they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.dtensor.move import all_moved
from shardwise.dtensor.rule.block import blocks, here_of, positions, unblocked
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.skip import is_outside, nothing
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.extreme import check_choice, nothing_chosen

__all__ = ["argument", "chosen", "extreme", "no_gradient", "placed_where_it_was"]

_NOWHERE = int(np.iinfo(np.int64).max)


def extreme(function: type[Function], op: str) -> Callable[..., Any]:
    """Return the forward of an `Amax` or `Amin` whose gradient is wanted: one all-reduce."""

    def forward(ctx: Context, a: Any, dim: Dims = None, keepdim: bool = False) -> Any:
        ctx.dims = counted_dims(op, dim, a.ndim)
        out = settled(function.apply(a, dim=dim, keepdim=keepdim))
        ctx.save(a, out)
        return out

    return forward


def argument(op: str, sign: int) -> Callable[..., Any]:
    """Return the forward of `Argmax` (`sign` 1) or `Argmin` (-1): a pair per result and rank is gathered."""

    def forward(ctx: Context, a: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        dims = counted_dims(op, dim, a.ndim)
        check_choice(op, a, dims)
        _, index = _pairs(a, dims, sign)
        return index if keepdim else _without(index, dims)

    return forward


def chosen(op: str, sign: int) -> Callable[..., Any]:
    """Return the forward of `Max` (`sign` 1) or `Min` (-1): a pair per result and rank is gathered."""

    def forward(ctx: Context, a: Any, dim: int, keepdim: bool = False) -> Any:
        dims = counted_dims(op, dim, a.ndim)
        check_choice(op, a, dims)
        value, index = _pairs(a, dims, sign)
        ctx.layout, ctx.dim, ctx.kept = settled(a).layout, dims[0], index.shape
        if not keepdim:
            value, index = _without(value, dims), _without(index, dims)
        ctx.save(index)
        return value, index

    return forward


def no_gradient(ctx: Context, g: Any) -> Gradients:
    """The backward of what gives integers."""
    return (None,)


def placed_where_it_was(ctx: Context, g: Any, _: Any) -> Gradients:
    """The backward of `chosen`: each rank writes what belongs into its part; nothing is sent."""
    (index,) = ctx.saved
    here = positions(ctx.layout, ctx.dim)
    return (np.where(here == np.reshape(index, ctx.kept), np.reshape(g, ctx.kept), 0.0),)


def _without(x: Any, dims: tuple[int, ...]) -> Any:
    return x.reshape(tuple([n for d, n in enumerate(x.shape) if d not in dims]))


def _pairs(a: Any, dims: tuple[int, ...], sign: int) -> tuple[Any, Any]:
    """Return the extreme values and their places among `dims` in C order: the first of ties, or of NaN."""
    a = settled(a)
    data: ShardedArray = a.data
    layout = data.layout
    if is_outside(layout):
        kept = unblocked(blocks(layout, dims, (), a.dtype), outer=1)
        return nothing(kept), nothing(kept.with_dtype(np.int64))
    value, index = _of_part(data.local, dims, sign, layout.shape, layout.local_offset(here_of(layout)))
    entries = [blocks(layout, dims, (), each.dtype) for each in (value, index)]
    pairs = [
        (ShardedArray(each[None], entry), unblocked(entry))
        for each, entry in zip((value, index), entries, strict=True)
    ]
    values, indices = [each.local for each in all_moved(pairs)]
    best = np.max(values, axis=0) if sign > 0 else np.min(values, axis=0)
    hit = values == best
    if values.dtype.kind == "f":
        hit = np.logical_or(hit, np.logical_and(np.isnan(values), np.isnan(best)))
    first = np.min(np.where(hit, indices, _NOWHERE), axis=0)
    kept = unblocked(entries[0], outer=1)
    wrap: Any = ShardedArray.tensor_class
    return wrap(ShardedArray(best, kept)), wrap(ShardedArray(first, kept.with_dtype(np.int64)))


def _of_part(
    x: Array, dims: tuple[int, ...], sign: int, whole: tuple[int, ...], offset: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return the extreme of a part and its place in the whole, both with size one along `dims`."""
    if 0 in [x.shape[d] for d in dims]:
        value = nothing_chosen(x, dims, True, -sign)
        return value, np.full_like(value, _NOWHERE, dtype=np.int64)
    order = tuple([d for d in range(x.ndim) if d not in dims]) + dims
    turned = np.transpose(x, order)
    rows = np.reshape(turned, (*turned.shape[: x.ndim - len(dims)], math.prod([x.shape[d] for d in dims])))
    flat = np.expand_dims(np.argmax(rows, axis=-1) if sign > 0 else np.argmin(rows, axis=-1), -1)
    shape = tuple([1 if d in dims else n for d, n in enumerate(x.shape)])
    value = np.reshape(np.take_along_axis(rows, flat, axis=-1), shape)
    place, step = np.zeros_like(flat), 1
    for d in reversed(dims):
        place = place + (flat % x.shape[d] + offset[d]) * step
        flat, step = flat // x.shape[d], step * whole[d]
    return value, np.reshape(place, shape).astype(np.int64)
