"""Choosing one element per row by its place in the order: medians, the k-th smallest, the mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError
from shardwise.backend.ranking import sorted_indices
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.extreme import check_choice, choosing_signature, shared_by_ties
from shardwise.tensor.ops.order import chosen, placed
from shardwise.tensor.ops.reduce import whole_signature
from shardwise.tensor.ops.scan import standing_along

__all__ = ["KthValue", "Median", "MedianAlong", "Mode"]


def _first_place(a: Array, value: Array, dim: int) -> Array:
    """Return where along `dim` the first element is that equals `value`; NaN equals NaN."""
    return np.argmax(np.where(value != value, a != a, a == value), axis=dim, keepdims=True)


def _kth(a: Array, place: int, dim: int) -> Array:
    """Return the value at `place` in the order along `dim`, which is kept with size one."""
    return np.partition(a, place, axis=dim)[(slice(None),) * dim + (slice(place, place + 1),)]


def _lower_median(a: Array, dim: int, ignore_nan: bool) -> Array:
    """Return the lower of the two in the middle where there are two, `dim` kept with size one."""
    count = a.shape[dim]
    if a.dtype.kind != "f":
        return _kth(a, (count - 1) // 2, dim)
    if not ignore_nan:
        value = _kth(a, (count - 1) // 2, dim)
        return np.where(np.any(a != a, axis=dim, keepdims=True), math.nan, value)
    present = np.sum(a == a, axis=dim, keepdims=True)
    return np.take_along_axis(np.sort(a, axis=dim), np.maximum(present - 1, 0) // 2, axis=dim)


class KthValue(Function):
    """The k-th smallest along a dim and the index of the first that equals it, which gets the gradient."""

    signature = choosing_signature

    @staticmethod
    def forward(ctx: Context, a: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
        dim = counted_dim("kthvalue", dim, a.ndim)
        check_choice("kthvalue", a, (dim,))
        if not 1 <= k <= a.shape[dim]:
            raise ArgumentError(
                f"kthvalue: k={k} of the {a.shape[dim]} elements along dim {dim} of shape {a.shape}; wanted "
                f"1 to {a.shape[dim]}"
            )
        return chosen(ctx, a, _first_place(a, _kth(a, k - 1, dim), dim), dim, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


class Median(Function):
    """The lower median of all elements; those that equal it share the gradient evenly."""

    signature = whole_signature

    @staticmethod
    def forward(ctx: Context, a: Array, ignore_nan: bool = False) -> Array:
        check_choice("median", a, ())
        flat = np.reshape(a, (-1,))
        if not a.size:
            return np.sum(a) * math.nan
        out = np.reshape(_lower_median(flat, 0, ignore_nan), ())
        ctx.dims = tuple(range(a.ndim))
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        if not ctx.saved:
            return (None,)
        a, out = ctx.saved
        return (shared_by_ties(a, out, ctx.dims, g),)


class MedianAlong(Function):
    """The lower median along a dim and the index of the first that equals it, which gets the gradient."""

    signature = choosing_signature

    @staticmethod
    def forward(
        ctx: Context, a: Array, dim: int, keepdim: bool = False, ignore_nan: bool = False
    ) -> tuple[Array, Array]:
        dim = counted_dim("median", dim, a.ndim)
        check_choice("median", a, (dim,))
        return chosen(ctx, a, _first_place(a, _lower_median(a, dim, ignore_nan), dim), dim, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


class Mode(Function):
    """The most frequent value along a dim, of ties the smallest, and the index of its last appearance."""

    signature = choosing_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
        dim = counted_dim("mode", dim, a.ndim)
        check_choice("mode", a, (dim,))
        before = (slice(None),) * dim
        order = sorted_indices(a, dim, descending=False)
        ordered = np.take_along_axis(a, order, axis=dim)
        changed = ordered[(*before, slice(1, None))] != ordered[(*before, slice(None, -1))]
        first = np.concatenate((np.ones_like(changed, shape=_one(a.shape, dim)), changed), axis=dim)
        places = standing_along(a.shape[dim], dim, a.ndim, a)
        # How far into its run of equal values an element stands; the first to get farthest is the last of it.
        start = special.accumulate(np.maximum, np.where(first, places, 0), dim)
        best = np.argmax(places - start, axis=dim, keepdims=True)
        return chosen(ctx, a, np.take_along_axis(order, best, axis=dim), dim, keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


def _one(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], 1, *shape[dim + 1 :])
