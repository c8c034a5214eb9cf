"""Reading and writing by index. `Index` and `Unindex` are each other's adjoint, `IndexPut`'s is `Pick`."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.tensor.broadcasting import unbroadcast
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.key import index_terms, kept_index, last_writes, never_repeats
from shardwise.tensor.ops.part_key import part_index
from shardwise.tensor.signature import Part

__all__ = ["Embedding", "Index", "IndexAdd", "IndexPut", "Pick", "Slice", "Unindex"]


def _index_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    before, after = index_terms(shapes[0], params["index"])
    return f"{before}->{''.join(after)}"


class Index(Function):
    """``a[index]`` with arrays of integers or booleans among the indices: a copy."""

    signature = _index_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any) -> Array:
        ctx.shape = a.shape
        ctx.index = kept_index(index) if ctx.need[0] else index
        return a[index]

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unindex.apply(g, shape=ctx.shape, index=ctx.index),)


def _part_index(
    params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
) -> dict[str, Any]:
    return {**params, "index": part_index(params["index"], inputs[0], outputs[0])}


class Slice(Function):
    """``a[index]`` with integers, slices, None and Ellipsis only: a view."""

    signature = _index_signature
    view = True
    linear = "all"
    localize = staticmethod(_part_index)

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any) -> Array:
        ctx.shape, ctx.index = a.shape, index
        # "..." keeps a result without dims an array that looks at the memory
        key = index if type(index) is tuple else (index,)
        return a[key if Ellipsis in key else (*key, ...)]

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unindex.apply(g, shape=ctx.shape, index=ctx.index),)


def _unindex_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    before, after = index_terms(params["shape"], params["index"])
    return f"{''.join(after)}->{before}"


def _part_places(
    params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
) -> dict[str, Any]:
    index = part_index(params["index"], outputs[0], inputs[0])
    return {**params, "index": index, "shape": outputs[0].shape}


class Unindex(Function):
    """Zeros of `shape` to which the input is added at `index`."""

    signature = _unindex_signature
    exact = True  # sums are made in float32
    linear = "all"
    localize = staticmethod(_part_places)

    @staticmethod
    def forward(ctx: Context, g: Array, shape: Shape, index: Any) -> Array:
        ctx.index = index
        if never_repeats(index):  # so there is nothing to add up
            out = np.zeros_like(g, shape=shape)
            out[index] = g
            return out
        return special.scatter_add(shape, index if isinstance(index, tuple) else (index,), g)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Index.apply(g, index=ctx.index),)


def _put_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Tell that the values broadcast to what the index selects."""
    before, after = index_terms(shapes[0], params["index"])
    values = ["1"] * len(shapes[1])
    for at in range(1, min(len(values), len(after)) + 1):
        if shapes[1][-at] != 1:
            values[-at] = after[-at]
    return f"{before},{''.join(values)}->{before}"


class IndexPut(Function):
    """The first input with values written at `index`; the last of those that go to one place stays.

    With `in_place` they are written into the first input itself, of whose old values none is needed.
    """

    signature = _put_signature
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, values: Array, index: Any, in_place: bool = False) -> Array:
        ctx.index = kept_index(index) if True in ctx.need else index
        ctx.values_shape = np.shape(values)
        out = a if in_place else a.copy()
        out[index] = values
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        dvalues = None
        if ctx.need[1]:
            picked, shape = Pick.apply(g, index=ctx.index), ctx.values_shape
            extra = max(0, len(shape) - picked.ndim)  # leading dims of one element, which NumPy lets go
            dvalues = np.reshape(unbroadcast(picked, shape[extra:]), shape)
        return IndexPut.apply(g, 0.0, index=ctx.index) if ctx.need[0] else None, dvalues


class IndexAdd(Function):
    """The first input with values added at `index`; those that go to one place add up."""

    signature = _put_signature
    exact = True  # sums are made in float32

    @staticmethod
    def forward(ctx: Context, a: Array, values: Array, index: Any) -> Array:
        ctx.index = kept_index(index) if True in ctx.need else index
        ctx.values_shape = np.shape(values)
        if not hasattr(values, "dtype"):
            values = np.full_like(a, values, shape=())
        room = np.broadcast_to(values, a[index].shape)
        return a + special.scatter_add(a.shape, index if isinstance(index, tuple) else (index,), room)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        dvalues = None
        if ctx.need[1]:
            picked, shape = Index.apply(g, index=ctx.index), ctx.values_shape
            extra = max(0, len(shape) - picked.ndim)  # leading dims of one element, which NumPy lets go
            dvalues = np.reshape(unbroadcast(picked, shape[extra:]), shape)
        return g if ctx.need[0] else None, dvalues


class Pick(Function):
    """``a[index]``, but zero for all except the last of those that name one place."""

    signature = _index_signature
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, index: Any) -> Array:
        ctx.shape, ctx.index = a.shape, index
        if never_repeats(index):
            return a[index]
        return np.where(last_writes(a.shape, index, a), a[index], 0.0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (IndexPut.apply(np.zeros_like(g, shape=ctx.shape), g, index=ctx.index),)


class Embedding(Function):
    """Rows of `weight` chosen by integers."""

    signature = "[v]d,...->...d"
    exact = True
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, weight: Array, index: Array) -> Array:
        ctx.rows = weight.shape[0]
        ctx.save(index)
        return np.take(weight, index, axis=0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return embedding_backward(g, index, ctx.rows), None
