"""Ops that join arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, by_size, term

__all__ = ["Cat", "Stack"]


def _cat_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params.get("dim", 0) % ndim
    last, *first = by_size(ndim, (-1, *(shape[dim] for shape in shapes)))
    return f"{','.join(term(ndim, {dim: c}) for c in first)}->{term(ndim, {dim: last})}"


class Cat(Function):
    """Arrays one after the other along a dim."""

    signature = _cat_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, *arrays: Array, dim: int = 0) -> Array:
        ctx.dim = dim
        ctx.sizes = [a.shape[dim] for a in arrays]
        return np.concatenate(arrays, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        pieces: list[Array | None] = []
        start = 0
        for size, need in zip(ctx.sizes, ctx.need, strict=True):
            index = [slice(None)] * g.ndim
            index[ctx.dim] = slice(start, start + size)
            pieces.append(g[tuple(index)] if need else None)
            start += size
        return pieces


def _stack_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params.get("dim", 0) % (ndim + 1)
    letters = term(ndim)
    return f"{','.join([letters] * len(shapes))}->{letters[:dim]}[{LETTERS[ndim]}]{letters[dim:]}"


class Stack(Function):
    """Arrays of one shape along a new dim."""

    signature = _stack_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, *arrays: Array, dim: int = 0) -> Array:
        ctx.dim = dim
        return np.stack(arrays, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        dim = ctx.dim % g.ndim
        return [g[(slice(None),) * dim + (i, ...)] if need else None for i, need in enumerate(ctx.need)]
