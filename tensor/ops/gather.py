"""Elements along one dim, named one by one.

`Gather` and `Ungather` are each other's adjoint; that of writing by `Scatter` is `GatherLast`. An index
has as many dims as the array, and is no longer than it along all but `dim`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.place.gather import gather_along, scatter_along
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.bound import check_index
from shardwise.tensor.ops.letter import LETTERS, term
from shardwise.tensor.signature import Part

__all__ = ["Gather", "GatherLast", "Scatter", "ScatterAdd", "Ungather", "grid"]


_FUSED_FROM = 1 << 12  # elements; below, loading the compiled code would cost more than it saves


def grid(index: Array, dim: int) -> tuple[Array, ...]:
    """Return the index, with one array per other dim, that names places for NumPy."""
    ndim = index.ndim
    places = [
        np.reshape(np.arange(n, like=index), (1,) * d + (n,) + (1,) * (ndim - d - 1))
        for d, n in enumerate(index.shape)
    ]
    places[dim] = index
    return tuple(places)


def _terms(shape: Shape, index: Shape, dim: int) -> tuple[str, str]:
    """Give the terms of an array and an index: dims of the same length are the same.

    Along `dim` the index may be cut: each of its elements names a place by itself.
    """
    ndim, dim = len(shape), dim % len(shape)
    other = {d for d in range(ndim) if d == dim or shape[d] != index[d]}
    places = term(ndim, {d: LETTERS[ndim + d] for d in other})
    named = LETTERS[ndim + dim]
    return (
        term(ndim, {d: LETTERS[d] for d in other}),
        places.replace(f"[{named}]", named),
    )


def _gather_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    array, index = _terms(shapes[0], shapes[1], params["dim"])
    return f"{array},{index}->{index}"


class Gather(Function):
    """Per position of the index, the element that it names along `dim`."""

    signature = _gather_signature
    exact = True
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, dim: int, negative: bool = False) -> Array:
        dim = dim % a.ndim
        ctx.shape, ctx.dim = a.shape, dim
        ctx.save(index)
        return _gathered(a, index, dim, negative)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return Ungather.apply(g, index, shape=ctx.shape, dim=ctx.dim), None


def _part_shape(
    params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
) -> dict[str, Any]:
    return {**params, "shape": outputs[0].shape}


def _ungather_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    array, index = _terms(params["shape"], shapes[1], params["dim"])
    return f"{index},{index}->{array}"


class Ungather(Function):
    """Zeros of `shape`, to which each element is added where the index names it along `dim`."""

    signature = _ungather_signature
    exact = True  # sums are made in float32
    linear = (0,)
    reduces = "sum"
    localize = staticmethod(_part_shape)

    @staticmethod
    def forward(ctx: Context, g: Array, index: Array, shape: Shape, dim: int) -> Array:
        ctx.dim = dim = dim % g.ndim
        ctx.save(index)
        return _scattered(g, index, shape, dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return Gather.apply(g, index, dim=ctx.dim, negative=True), None


def _gathered(a: Array, index: Array, dim: int, negative: bool) -> Array:
    if _is_large(a, index, dim):
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        folded = a.reshape(outer, a.shape[dim], inner)
        try:
            out = gather_along(folded, index.reshape(outer, -1, inner), negative)
            return out.reshape(index.shape)
        except IndexError:
            pass  # the check below says which
    check_index("gather", index, a.shape[dim], dim, negative)
    corner = tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape)])
    return np.take_along_axis(a[corner], index, axis=dim)


def _scattered(g: Array, index: Array, shape: Shape, dim: int) -> Array:
    same = index.shape[:dim] + index.shape[dim + 1 :] == shape[:dim] + shape[dim + 1 :]
    if same and _is_large(g, index, dim):
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        try:
            folded = g.reshape(outer, -1, inner)
            return scatter_along(folded, index.reshape(outer, -1, inner), shape[dim]).reshape(shape)
        except IndexError:
            pass  # the general way says which
    return special.scatter_add(shape, grid(index, dim), g)


def _is_large(a: Array, index: Array, dim: int) -> bool:
    """Tell whether compiled code pays, for which all but `dim` must be alike."""
    return (
        isinstance(index, np.ndarray)
        and isinstance(a, np.ndarray)
        and index.size >= _FUSED_FROM
        and a.flags.c_contiguous
        and index.dtype.kind in "iu"
        and index.shape[:dim] + index.shape[dim + 1 :] == a.shape[:dim] + a.shape[dim + 1 :]
    )


def _scatter_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    array, index = _terms(shapes[0], shapes[1], params["dim"])
    return f"{array},{index},{index if shapes[2] else ''}->{array}"


class ScatterAdd(Function):
    """The first input, to which each element of `source` is added where the index names it along `dim`."""

    signature = _scatter_signature
    linear = (0, 2)
    reduces = "sum"
    addends = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, source: Array, dim: int) -> Array:
        ctx.dim = dim = dim % a.ndim
        check_index("scatter_add", index, a.shape[dim], dim)
        ctx.save(index)
        return a + _scattered(source, index, a.shape, dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return g, None, Gather.apply(g, index, dim=ctx.dim) if ctx.need[2] else None


class Scatter(Function):
    """The first input with elements along `dim` replaced where the index names them.

    `source` has the shape of the index, or is one number. Of those that go to one place the last stays.
    """

    signature = _scatter_signature
    exact = True
    linear = (0, 2)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, source: Array, dim: int) -> Array:
        ctx.dim = dim = dim % a.ndim
        check_index("scatter", index, a.shape[dim], dim)
        ctx.save(index)
        out = a.copy()
        out[grid(index, dim)] = source
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        da = Scatter.apply(g, index, 0.0, dim=ctx.dim) if ctx.need[0] else None
        return da, None, GatherLast.apply(g, index, dim=ctx.dim) if ctx.need[2] else None


def _last_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Which is the last is told by the whole index."""
    named = LETTERS[len(shapes[0]) + params["dim"] % len(shapes[0])]
    return _gather_signature(shapes, params).replace(named, f"[{named}]")


class GatherLast(Function):
    """The elements that the index names along `dim`, but zeros for all except the last of the same."""

    signature = _last_signature
    exact = True
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Array, dim: int) -> Array:
        ctx.shape, ctx.dim = a.shape, dim % a.ndim
        ctx.save(index)
        places = grid(index, dim)
        order = np.zeros(a.shape, np.int64, like=a)
        number = np.reshape(np.arange(index.size, like=a), index.shape)
        order[places] = number
        return np.where(order[places] == number, a[places], 0.0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return Scatter.apply(np.zeros_like(g, shape=ctx.shape), index, g, dim=ctx.dim), None
