"""Elements combined where an index along one dim names one place: sums, means, products, extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.gather import Gather, Scatter, Ungather, grid
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["REDUCTIONS", "ScatterReduce"]

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
"""How elements can be combined."""


def _signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim, dim = len(shapes[0]), params["dim"] % len(shapes[0])
    other = [d for d in range(ndim) if d == dim or shapes[0][d] != shapes[1][d]]
    array, index = (term(ndim, {d: LETTERS[n + d] for d in other}) for n in (0, ndim))
    return f"{array},{index},{index}->{array}"


class ScatterReduce(Function):
    """The first input combined, where the index names it along `dim`, with the elements of `source`.

    Without `include_self` those places start from nothing. Where several elements are the largest or
    the smallest, they share the gradient.
    """

    signature = _signature

    @staticmethod
    def forward(
        ctx: Context, a: Array, index: Array, source: Array, dim: int, reduce: str, include_self: bool
    ) -> Array:
        dim = dim % a.ndim
        check_index("scatter_reduce", index, a.shape[dim], dim)
        ctx.dim, ctx.reduce, ctx.include_self, ctx.shape = dim, reduce, include_self, a.shape
        key = grid(index, dim)
        base = a
        if not include_self:
            base = a.copy()
            base[key] = {"prod": 1, "amax": source, "amin": source}.get(reduce, 0)
        if reduce in ("sum", "mean"):
            out = base + special.scatter_add(a.shape, key, source)
            if reduce == "mean":
                count = _count(index, a, dim, include_self)
                out = out // count.astype(a.dtype) if a.dtype.kind in "iu" else out / count
        else:
            operation = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
            out = special.combine_at(operation, base, key, source)
        if reduce in ("sum", "mean"):
            ctx.save(None, index, None, None)
        else:
            ctx.save(a, index, source, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, index, source, out = ctx.saved
        if ctx.reduce == "sum":
            da, ds = g, _gathered(ctx, g, index)
        elif ctx.reduce == "mean":
            share = g / _count(index, g, ctx.dim, ctx.include_self)
            da, ds = share, _gathered(ctx, share, index)
        elif ctx.reduce == "prod":
            da, ds = _product_gradients(ctx, g, a, index, source)
        else:
            mine = (a == out).astype(g.dtype)
            if not ctx.include_self:
                mine = Scatter.apply(mine, index, 0.0, dim=ctx.dim)
            theirs = (source == Gather.apply(out, index, dim=ctx.dim)).astype(g.dtype)
            ties = mine + Ungather.apply(theirs, index, shape=ctx.shape, dim=ctx.dim)
            # Nothing was written to the places that the index leaves out, so there `a` is the result.
            share = g / np.maximum(ties, 1.0)
            da, ds = share * mine, _gathered(ctx, share, index) * theirs
        if ctx.need[0] and not ctx.include_self:
            da = Scatter.apply(da, index, 0.0, dim=ctx.dim)
        return da if ctx.need[0] else None, None, ds if ctx.need[2] else None


def _gathered(ctx: Context, g: Any, index: Any) -> Any:
    return Gather.apply(g, index, dim=ctx.dim)


def _count(index: Any, like: Any, dim: int, include_self: bool) -> Any:
    """How many elements were put together, at every place."""
    dtype = like.dtype if like.dtype.kind == "f" else np.float64
    one_each = np.ones_like(index, dtype=dtype)
    count = Ungather.apply(one_each, index, shape=like.shape, dim=dim)
    return count + 1.0 if include_self else np.maximum(count, 1.0)


def _product_gradients(ctx: Context, g: Any, a: Any, index: Any, source: Any) -> tuple[Any, Any]:
    """The product of all other factors for each, also where factors are zero.

    At a place with one zero only that one has a gradient, the product of the others; with two or more
    there is none. (Gradients of second order are those of the nonzero factors.)
    """
    zeros = (a == 0).astype(g.real.dtype)
    if not ctx.include_self:
        zeros = Scatter.apply(zeros, index, 0.0, dim=ctx.dim)
    source_zeros = (source == 0).astype(g.real.dtype)
    zeros = zeros + Ungather.apply(source_zeros, index, shape=ctx.shape, dim=ctx.dim)
    mine, theirs = np.where(a == 0, 1.0, a), np.where(source == 0, 1.0, source)
    rest = ScatterReduce.apply(mine, index, theirs, dim=ctx.dim, reduce="prod", include_self=ctx.include_self)

    def gradient(g: Any, rest: Any, zeros: Any, factor: Any, nonzero: Any) -> Any:
        alone = np.where(zeros == 1, rest, 0.0)
        return g * conj(np.where(factor == 0, alone, np.where(zeros == 0, rest / nonzero, 0.0)))

    g_there, rest_there, zeros_there = (_gathered(ctx, each, index) for each in (g, rest, zeros))
    return gradient(g, rest, zeros, a, mine), gradient(g_there, rest_there, zeros_there, source, theirs)
