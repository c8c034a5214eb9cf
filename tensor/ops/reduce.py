"""Reductions over dims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Amax", "Amin", "Argmax", "Argmin", "Dims", "Mean", "Sum", "reduced_count"]

Dims = int | tuple[int, ...] | None


def _signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    """Give ``"abc->ac"`` for a reduction of dim 1, with letters kept as ``1`` under keepdim."""
    ndim = len(shapes[0])
    letters = "abcdefghijklmnopqrstuvw"[:ndim]
    gone = _normalise(params.get("dim"), ndim)
    kept = ("1" if i in gone else c for i, c in enumerate(letters))
    return f"{letters}->{''.join(c for c in kept if c != '1' or params.get('keepdim'))}"


def reduced_count(shape: tuple[int, ...], dim: Dims) -> int:
    """Return how many elements go into each result of a reduction over `dim`."""
    return math.prod(shape[d] for d in _normalise(dim, len(shape)))


def _normalise(dim: Dims, ndim: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(ndim))
    return tuple(d % ndim if ndim else 0 for d in ((dim,) if isinstance(dim, int) else dim))


def _restore(g: Any, dim: Dims, keepdim: bool) -> Any:
    """Put the reduced dims back, with size one."""
    return g if keepdim or dim is None else np.expand_dims(g, dim)


class Sum(Function):
    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        ctx.shape, ctx.dim, ctx.keepdim = a.shape, dim, keepdim
        return np.sum(a, axis=dim, keepdims=keepdim, dtype=dtype)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.broadcast_to(_restore(g, ctx.dim, ctx.keepdim), ctx.shape),)


class Mean(Function):
    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        ctx.shape, ctx.dim, ctx.keepdim = a.shape, dim, keepdim
        if a.size == 0:  # as np.mean, without its warning
            return np.sum(a, axis=dim, keepdims=keepdim) * math.nan
        return np.mean(a, axis=dim, keepdims=keepdim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        count = max(reduced_count(ctx.shape, ctx.dim), 1)
        scaled = _restore(g, ctx.dim, ctx.keepdim) * (1.0 / count)
        return (np.broadcast_to(scaled, ctx.shape),)


class Amax(Function):
    """The largest value; ties share the gradient evenly."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        out = np.max(a, axis=dim, keepdims=keepdim)
        ctx.dim, ctx.keepdim = dim, keepdim
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (_share_ties(ctx, g),)


class Amin(Function):
    """The smallest value; ties share the gradient evenly."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        out = np.min(a, axis=dim, keepdims=keepdim)
        ctx.dim, ctx.keepdim = dim, keepdim
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (_share_ties(ctx, g),)


def _share_ties(ctx: Context, g: Any) -> Any:
    a, out = ctx.saved
    hit = a == _restore(out, ctx.dim, ctx.keepdim)
    count = np.sum(hit, axis=ctx.dim, keepdims=True)
    return np.where(hit, _restore(g, ctx.dim, ctx.keepdim) / count.astype(g.dtype), 0.0)


class Argmax(Function):
    """The index of the first largest value along a dim, int64."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return np.argmax(a, axis=dim, keepdims=keepdim)


class Argmin(Function):
    """The index of the first smallest value along a dim, int64."""

    signature = _signature

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return np.argmin(a, axis=dim, keepdims=keepdim)
