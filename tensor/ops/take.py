"""Slices along one dim, named by integers. `IndexSelect` and `Unselect` are each other's adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.ops.key import last_writes
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["IndexCopy", "IndexSelect", "SelectLast", "Unselect"]


def _key(dim: int, index: Array) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, index)


def _select_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim, places = len(shapes[0]), len(shapes[1])
    dim = params["dim"] % ndim
    letters, names = term(ndim), LETTERS[ndim : ndim + places]
    return f"{term(ndim, {dim: letters[dim]})},{names}->{letters[:dim]}{names}{letters[dim + 1 :]}"


class IndexSelect(Function):
    """The slices along `dim` that an index of any shape names, whose dims take the place of `dim`."""

    signature = _select_signature
    exact = True
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, dim: int, negative: bool = False) -> Array:
        dim = dim % a.ndim
        ctx.size, ctx.dim = a.shape[dim], dim
        check_index("index_select", index, ctx.size, dim, negative)
        ctx.save(index)
        return np.take(a, index, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return Unselect.apply(g, index, size=ctx.size, dim=ctx.dim), None


def _unselect_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    places = len(shapes[1])
    ndim, dim = len(shapes[0]) - places + 1, params["dim"]
    letters, names = term(ndim), LETTERS[ndim : ndim + places]
    return f"{letters[:dim]}{names}{letters[dim + 1 :]},{names}->{term(ndim, {dim: letters[dim]})}"


class Unselect(Function):
    """Zeros of `size` along `dim`, to which each slice is added where the index says."""

    signature = _unselect_signature
    exact = True  # sums are made in float32
    linear = (0,)
    reduces = "sum"

    @staticmethod
    def forward(ctx: Context, g: Array, index: Array, size: int, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(index)
        shape = (*g.shape[:dim], size, *g.shape[dim + index.ndim :])
        return special.scatter_add(shape, _key(dim, index), g)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return IndexSelect.apply(g, index, dim=ctx.dim, negative=True), None


def _copy_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim, dim = len(shapes[0]), params["dim"] % len(shapes[0])
    whole = term(ndim, {dim: LETTERS[dim]})
    source = ""  # a number, or slices
    if shapes[2]:
        source = term(ndim).replace(LETTERS[dim], LETTERS[ndim])
    return f"{whole},{LETTERS[ndim]},{source}->{whole}"


class IndexCopy(Function):
    """The first input with slices along `dim` replaced by those of `source`, or all by one number."""

    signature = _copy_signature
    exact = True
    linear = (0, 2)
    broadcasts = True

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, source: Array, dim: int, op: str) -> Array:
        dim = dim % a.ndim
        check_index(op, index, a.shape[dim], dim)
        ctx.dim, ctx.op, ctx.source_shape = dim, op, np.shape(source)
        ctx.save(index)
        out = a.copy()
        out[_key(dim, index)] = source
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        da = IndexCopy.apply(g, index, 0.0, dim=ctx.dim, op=ctx.op) if ctx.need[0] else None
        dsource = None
        if ctx.need[2]:
            dsource = unbroadcast(SelectLast.apply(g, index, dim=ctx.dim), ctx.source_shape)
        return da, None, dsource


class SelectLast(Function):
    """The slices along `dim` that an index names, but zeros for all except the last of the same."""

    signature = _select_signature
    exact = True
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, dim: int) -> Array:
        dim = dim % a.ndim
        ctx.shape, ctx.dim = a.shape, dim
        ctx.save(index)
        key = _key(dim, index)
        return np.where(last_writes(a.shape, key, a), a[key], 0.0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        zeros = np.zeros_like(g, shape=ctx.shape)
        return IndexCopy.apply(zeros, index, g, dim=ctx.dim, op="index_copy"), None
