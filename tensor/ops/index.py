"""Reading and writing by index. `Index` and `Unindex` are each other's adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.embedding import embedding_backward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Embedding", "Index", "Slice", "TakeAlong", "Unindex", "UntakeAlong", "is_basic", "plain_index"]

_LETTERS = "abcdefghijklmnopqrstuvw"


def is_basic(index: Any) -> bool:
    """Tell whether an index has only integers, slices, None and Ellipsis: then it gives a view."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is Ellipsis or (isinstance(part, (int, slice)) and not isinstance(part, bool))
        for part in parts
    )


def plain_index(index: Any) -> Any:
    """Replace the tensors and lists in an index by arrays."""
    if isinstance(index, tuple):
        return tuple(plain_index(part) for part in index)
    if isinstance(index, list):
        return np.asarray(index)
    return index.data if hasattr(index, "node") else index


def _index_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    letters = [f"[{c}]" for c in _LETTERS]
    if "shape" in params:
        after = len(params["shape"])
    else:
        after = np.broadcast_to(np.empty((), bool), shapes[0])[params["index"]].ndim
    return f"{''.join(letters[: len(shapes[0])])}->{''.join(letters[len(shapes[0]) :][:after])}"


class Index(Function):
    """``a[index]`` with arrays of integers or booleans among the indices: a copy."""

    signature = _index_signature

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any) -> Array:
        ctx.shape = a.shape
        ctx.index = _kept(index) if ctx.need[0] else index
        return a[index]

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unindex.apply(g, shape=ctx.shape, index=ctx.index),)


def _kept(index: Any) -> Any:
    """Copy the arrays in an index: they are the caller's, who may write into them before backward."""
    if isinstance(index, tuple):
        return tuple(_kept(part) for part in index)
    return index.copy() if hasattr(index, "dtype") else index


class Slice(Index):
    """``a[index]`` with integers, slices, None and Ellipsis only: a view."""

    view = True


class Unindex(Function):
    """Zeros of `shape` into which the input is added at `index`."""

    signature = _index_signature

    @staticmethod
    def forward(ctx: Context, g: Array, shape: tuple[int, ...], index: Any) -> Array:
        ctx.index = index
        if is_basic(index):  # no place repeats, so there is nothing to add up
            out = np.zeros_like(g, shape=shape)
            out[index] = g
            return out
        return special.scatter_add(shape, index if isinstance(index, tuple) else (index,), g)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return ((Slice if is_basic(ctx.index) else Index).apply(g, index=ctx.index),)


class Embedding(Function):
    """Rows of `weight` chosen by integers."""

    signature = "[v]d,...->...d"

    @staticmethod
    def forward(ctx: Context, weight: Array, index: Array) -> Array:
        ctx.rows = weight.shape[0]
        ctx.save(index)
        return np.take(weight, index, axis=0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return embedding_backward(g, index, ctx.rows), None


def _along_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    a, b = _LETTERS[dim], _LETTERS[ndim]
    names = [_LETTERS[:dim] + f"[{c}]" + _LETTERS[dim + 1 : ndim] for c in (a, b)]
    return f"{names[0]},{names[1]}->{names[1]}"


class TakeAlong(Function):
    """Per position, the value that `index` names along `dim`."""

    signature = _along_signature

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, dim: int) -> Array:
        ctx.shape, ctx.dim = a.shape, dim
        ctx.save(index)
        return np.take_along_axis(a, index, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return UntakeAlong.apply(g, index, size=ctx.shape[ctx.dim], dim=ctx.dim), None


class UntakeAlong(Function):
    """Zeros of `size` along `dim`, to which each value is added where `index` names it."""

    signature = _along_signature

    @staticmethod
    def forward(ctx: Context, g: Array, index: Array, size: int, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(index)
        shape = list(g.shape)
        shape[dim] = size
        grid: list[Any] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
        grid[dim] = index
        return special.scatter_add(tuple(shape), tuple(grid), g)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return TakeAlong.apply(g, index, dim=ctx.dim), None
