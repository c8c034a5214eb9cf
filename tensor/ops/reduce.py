"""Reductions over dims: sums, means, products, and questions about all elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.pointwise.choice import fill
from shardwise.backend.kernels.reduction.scan import product_backward
from shardwise.backend.kernels.reduction.total import LARGE, product_over, sum_of_numbers_over, sum_over
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.letter import LETTERS
from shardwise.tensor.ops.scan import integer_total
from shardwise.tensor.signature import Part

__all__ = [
    "AllTrue", "AnyTrue", "CountNonzero", "Dims", "Mean", "NanSum", "Prod", "Sum", "Trace", "kept_shape",
    "reduced", "reduced_count", "reduction_signature", "spread_over", "whole_signature",
]  # fmt: skip

_FEW = 4096  # elements


def reduction_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"abc->ac"`` for a reduction of dim 1, with letters kept as ``1`` under keepdim."""
    ndim = len(shapes[0])
    letters = LETTERS[:ndim]
    gone = counted_dims("signature", params.get("dim"), ndim)
    kept = ("1" if i in gone else c for i, c in enumerate(letters))
    return f"{letters}->{''.join(c for c in kept if c != '1' or params.get('keepdim'))}"


def whole_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->ac"``: the result over a part of the dim says nothing of the whole."""
    gone = counted_dims("signature", params.get("dim"), len(shapes[0]))
    left, right = reduction_signature(shapes, params).split("->")
    return f"{''.join(f'[{c}]' if i in gone else c for i, c in enumerate(left))}->{right}"


def reduced_count(shape: Shape, dim: Dims) -> int:
    """Return how many elements go into each result of a reduction over `dim`."""
    return math.prod([shape[d] for d in counted_dims("count", dim, len(shape))])


def kept_shape(shape: Shape, dims: tuple[int, ...]) -> Shape:
    """Return `shape` with one in place of the reduced dims."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])


def reduced(
    kernel: Callable[[Array, tuple[int, ...]], Array], a: Array, dims: tuple[int, ...], keepdim: bool
) -> Any:
    """Return what a kernel of ``kernels/total.py`` gives over `dims`."""
    result = kernel(a, dims)
    return np.reshape(result, kept_shape(a.shape, dims)) if keepdim else result


def spread_over(g: Array, shape: Shape, dims: tuple[int, ...]) -> Array:
    """Give the gradient of a sum over `dims` to all that was summed."""
    if type(g) is np.ndarray and math.prod(shape) <= _FEW:  # NumPy's view takes longer to make than a copy
        out: Array = np.empty(shape, g.dtype)
        out[...] = g if g.ndim == 0 else g.reshape(kept_shape(shape, dims))
        return out
    return np.broadcast_to(np.reshape(g, kept_shape(shape, dims)), shape)


class Sum(Function):
    signature = reduction_signature
    reduces = "sum"
    linear = "all"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        ctx.shape = a.shape
        ctx.dims = dims = counted_dims("sum", dim, a.ndim)
        if a.size >= LARGE and dtype is None:
            return reduced(sum_over, a, dims, keepdim)
        return np.sum(a, axis=dims, keepdims=keepdim, dtype=dtype or integer_total(a.dtype))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (spread_over(g, ctx.shape, ctx.dims),)


class NanSum(Function):
    """The sum with NaN counted as zero, and so is its gradient there."""

    signature = reduction_signature
    reduces = "sum"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        dims = counted_dims("nansum", dim, a.ndim)
        ctx.kept = kept_shape(a.shape, dims)
        ctx.save(a)
        return reduced(sum_of_numbers_over, a, dims, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        spread = np.broadcast_to(np.reshape(g, ctx.kept), a.shape)
        return (fill(spread, np.isnan(a), 0.0),)


class Mean(Function):
    """The mean; NaN over dims without elements. Of integers it is float64, as in NumPy."""

    signature = reduction_signature
    reduces = "sum"
    linear = "all"

    @staticmethod
    def localize(
        params: dict[str, Any], inputs: tuple[Part, ...], outputs: tuple[Part, ...]
    ) -> dict[str, Any]:
        return {**params, "count": reduced_count(inputs[0].whole, params.get("dim"))}

    @staticmethod
    def forward(
        ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False, count: int | None = None
    ) -> Array:
        ctx.shape = a.shape
        ctx.dims = dims = counted_dims("mean", dim, a.ndim)
        ctx.count = a.size if dim is None else math.prod([a.shape[d] for d in dims])
        if count is not None:  # the elements are a part of those that the mean is of
            ctx.count = count
        total = (
            reduced(sum_over, a, dims, keepdim) if a.size >= LARGE else np.sum(a, axis=dims, keepdims=keepdim)
        )
        return total / ctx.count if ctx.count else total * math.nan

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        scaled = np.reshape(g, kept_shape(ctx.shape, ctx.dims)) * (1.0 / max(ctx.count, 1))
        return (np.broadcast_to(scaled, ctx.shape),)


class Prod(Function):
    """The product. Its gradient divides by nothing, so that zeros among the factors are no trouble."""

    signature = reduction_signature
    reduces = "prod"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        ctx.dims = counted_dims("prod", dim, a.ndim)
        ctx.save(a)
        if a.size >= LARGE and a.dtype.kind == "f":
            return reduced(product_over, a, ctx.dims, keepdim)
        return np.prod(a, axis=ctx.dims, keepdims=keepdim, dtype=integer_total(a.dtype))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (a,) = ctx.saved
        kept = kept_shape(a.shape, ctx.dims)
        if 0 in a.shape:
            return (np.broadcast_to(np.reshape(g, kept), a.shape),)
        # The reduced dims go last and become one, along which the factors stand.
        order = tuple([d for d in range(a.ndim) if d not in ctx.dims]) + ctx.dims
        moved = np.transpose(a, order)
        count = math.prod([a.shape[d] for d in ctx.dims])
        factors = conj(np.reshape(moved, (-1, count)))
        gradient = np.reshape(product_backward(np.reshape(g, (-1,)), factors), moved.shape)
        inverse = [0] * a.ndim
        for place, d in enumerate(order):
            inverse[d] = place
        return (np.transpose(gradient, tuple(inverse)),)


class AllTrue(Function):
    """Whether no element is zero."""

    signature = reduction_signature
    reduces = "band"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        return np.all(a, axis=counted_dims("all", dim, a.ndim), keepdims=keepdim)


class AnyTrue(Function):
    """Whether some element is not zero."""

    signature = reduction_signature
    reduces = "bor"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        return np.any(a, axis=counted_dims("any", dim, a.ndim), keepdims=keepdim)


class CountNonzero(Function):
    """How many elements are not zero, int64."""

    signature = reduction_signature
    reduces = "sum"
    exact = True

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        dims = counted_dims("count_nonzero", dim, a.ndim)
        return np.sum(a != 0, axis=dims, keepdims=keepdim).astype(np.int64)


def _trace_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    gone = (params.get("dim1", 0) % ndim, params.get("dim2", 1) % ndim)
    letters = LETTERS[:ndim]
    left = "".join(f"[{c}]" if i in gone else c for i, c in enumerate(letters))
    return f"{left}->{''.join(c for i, c in enumerate(letters) if i not in gone)}"


class Trace(Function):
    """The sum of a diagonal of two dims; `offset` counts upwards from the main one."""

    signature = _trace_signature

    @staticmethod
    def forward(ctx: Context, a: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
        dims = counted_dims("trace", (dim1, dim2), a.ndim)
        ctx.shape, ctx.kept, ctx.dims, ctx.offset = a.shape, kept_shape(a.shape, dims), dims, offset
        return np.sum(np.diagonal(a, offset, *dims), axis=-1, dtype=integer_total(a.dtype))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        rows, columns = (np.reshape(np.arange(ctx.shape[d], like=g), _only(ctx.shape, d)) for d in ctx.dims)
        return (np.where(columns - rows == ctx.offset, np.reshape(g, ctx.kept), 0.0),)


def _only(shape: Shape, dim: int) -> Shape:
    """Return ones in place of all dims but `dim`."""
    return tuple([n if d == dim else 1 for d, n in enumerate(shape)])
