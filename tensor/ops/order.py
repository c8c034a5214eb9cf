"""Sorting along a dim, and choosing elements by their place in the order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ArgumentError
from shardwise.backend.ranking import sorted_indices
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.gather import Gather, grid
from shardwise.tensor.ops.letter import LETTERS
from shardwise.tensor.ops.scan import pair_signature, scan_signature

__all__ = ["Argsort", "PlaceAlong", "Sort", "TopK", "chosen", "placed"]


class Sort(Function):
    """The values in order along a dim, and where they were. Stable; NaN counts as the largest."""

    signature = pair_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
        dim = counted_dim("sort", dim, a.ndim)
        return chosen(ctx, a, sorted_indices(a, dim, descending), dim, True)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


class Argsort(Function):
    """Where the values in order along a dim are; as of `Sort`."""

    signature = scan_signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int = -1, descending: bool = False) -> Array:
        return sorted_indices(a, counted_dim("argsort", dim, a.ndim), descending)


def _first_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->a[x]c,a[x]c"`` for dim 1."""
    ndim = len(shapes[0])
    left = scan_signature(shapes, params).split("->")[0]
    right = left.replace(LETTERS[params["dim"] % ndim], LETTERS[ndim])
    return f"{left}->{right},{right}"


class TopK(Function):
    """The k largest (or smallest) along a dim, best first, and where they were; of ties the first."""

    signature = _first_signature

    @staticmethod
    def forward(ctx: Context, a: Array, k: int, dim: int = -1, largest: bool = True) -> tuple[Array, Array]:
        dim = counted_dim("topk", dim, a.ndim)
        if not 0 <= k <= a.shape[dim]:
            raise ArgumentError(
                f"topk: k={k} of the {a.shape[dim]} elements along dim {dim} of shape {a.shape}; wanted 0 to "
                f"{a.shape[dim]}"
            )
        return chosen(ctx, a, special.top_indices(a, k, dim, largest), dim, True)

    @staticmethod
    def backward(ctx: Context, g: Array, _: Any) -> Gradients:
        return (placed(ctx, g),)


# ---- choosing by index, without repeats, and its adjoint


def chosen(ctx: Context, a: Array, index: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """Return the values that `index` names along `dim`, and `index`; remember what `placed` needs."""
    values = np.take_along_axis(a, index, axis=dim)
    ctx.size, ctx.dim, ctx.shape = a.shape[dim], dim, index.shape
    if not keepdim:
        shape = index.shape[:dim] + index.shape[dim + 1 :]
        values, index = np.reshape(values, shape), np.reshape(index, shape)
    ctx.save(index)
    return values, index


def placed(ctx: Context, g: Any) -> Any:
    """Return the gradient of the array from which `chosen` took."""
    (index,) = ctx.saved
    g, index = np.reshape(g, ctx.shape), np.reshape(index, ctx.shape)
    return PlaceAlong.apply(g, index, size=ctx.size, dim=ctx.dim)


def _place_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim, dim = len(shapes[0]), params["dim"]
    a, b = (f"{LETTERS[:dim]}[{c}]{LETTERS[dim + 1 : ndim]}" for c in (LETTERS[dim], LETTERS[ndim]))
    return f"{a},{a}->{b}"


class PlaceAlong(Function):
    """Zeros of `size` along `dim`, with each value where `index` names it; no place is named twice."""

    signature = _place_signature
    exact = True

    @staticmethod
    def forward(ctx: Context, g: Array, index: Array, size: int, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(index)
        # Not zeros_like, which writes the zeros that memory may have anyway.
        out = np.zeros((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype, like=g)
        if dim == g.ndim - 1 and isinstance(out, np.ndarray):
            starts = size * np.arange(math.prod(out.shape[:-1])).reshape(*out.shape[:-1], 1)
            out.reshape(-1)[starts + index] = g  # a third of the time of an index per dim
        else:
            out[grid(index, dim)] = g
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (index,) = ctx.saved
        return Gather.apply(g, index, dim=ctx.dim), None
