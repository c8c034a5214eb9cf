"""Ops that rearrange dimensions, most of them without moving data."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Cat", "Expand", "Permute", "Reshape", "Split", "Stack", "Tril", "Triu", "Unbind"]

_LETTERS = "abcdefghijklmnopqrstuvw"


def _reshape_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    """Keep the leading dims that both shapes share; the others must be whole."""
    before, after = shapes[0], params["shape"]
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    head = _LETTERS[:same]
    fresh = iter(_LETTERS[same:])
    left = "".join(f"[{next(fresh)}]" for _ in before[same:])
    right = "".join(f"[{next(fresh)}]" for _ in after[same:])
    return f"{head}{left}->{head}{right}"


class Reshape(Function):
    signature = _reshape_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, shape: tuple[int, ...]) -> Array:
        ctx.shape = a.shape
        return np.reshape(a, shape)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.reshape(g, ctx.shape),)


def _permute_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    letters = _LETTERS[: len(shapes[0])]
    return f"{letters}->{''.join(letters[d] for d in params['dims'])}"


class Permute(Function):
    signature = _permute_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, dims: tuple[int, ...]) -> Array:
        ctx.dims = dims
        return np.transpose(a, dims)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        inverse = [0] * len(ctx.dims)
        for i, d in enumerate(ctx.dims):
            inverse[d % len(ctx.dims)] = i
        return (np.transpose(g, tuple(inverse)),)


def _expand_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    before, after = shapes[0], params["shape"]
    letters = _LETTERS[: len(after)]
    kept = letters[len(after) - len(before) :]
    inner = "".join("1" if n == 1 else c for n, c in zip(before, kept, strict=True))
    return f"{inner}->{letters}"


class Expand(Function):
    signature = _expand_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, shape: tuple[int, ...]) -> Array:
        ctx.shape = a.shape
        return np.broadcast_to(a, shape)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        extra = g.ndim - len(ctx.shape)
        grown = [i + extra for i, n in enumerate(ctx.shape) if n == 1 and g.shape[i + extra] != 1]
        return (np.reshape(np.sum(g, axis=(*range(extra), *grown), keepdims=True), ctx.shape),)


def _cat_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params.get("dim", 0) % ndim
    spare = iter(_LETTERS[ndim:])
    names = [_LETTERS[:dim] + f"[{next(spare)}]" + _LETTERS[dim + 1 : ndim] for _ in range(len(shapes) + 1)]
    return f"{','.join(names[:-1])}->{names[-1]}"


class Cat(Function):
    signature = _cat_signature

    @staticmethod
    def forward(ctx: Context, *arrays: Array, dim: int = 0) -> Array:
        ctx.dim = dim
        ctx.sizes = [a.shape[dim] for a in arrays]
        return np.concatenate(arrays, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        pieces, start = [], 0
        for size in ctx.sizes:
            index = [slice(None)] * g.ndim
            index[ctx.dim] = slice(start, start + size)
            pieces.append(g[tuple(index)])
            start += size
        return pieces


def _stack_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params.get("dim", 0) % (ndim + 1)
    letters = _LETTERS[:ndim]
    return f"{','.join([letters] * len(shapes))}->{letters[:dim]}[{_LETTERS[ndim]}]{letters[dim:]}"


class Stack(Function):
    signature = _stack_signature

    @staticmethod
    def forward(ctx: Context, *arrays: Array, dim: int = 0) -> Array:
        ctx.dim = dim
        return np.stack(arrays, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return [g[(slice(None),) * (ctx.dim % g.ndim) + (i,)] for i in range(g.shape[ctx.dim])]


def _split_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    spare = iter(_LETTERS[ndim:])
    names = [
        _LETTERS[:dim] + f"[{next(spare)}]" + _LETTERS[dim + 1 : ndim]
        for _ in range(len(params["sizes"]) + 1)
    ]
    return f"{names[-1]}->{','.join(names[:-1])}"


class Split(Function):
    """Cut along a dim into pieces of given sizes."""

    signature = _split_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, sizes: tuple[int, ...], dim: int) -> tuple[Array, ...]:
        ctx.dim = dim
        pieces, start = [], 0
        for size in sizes:
            pieces.append(a[(slice(None),) * (dim % a.ndim) + (slice(start, start + size),)])
            start += size
        return tuple(pieces)

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        return (np.concatenate(grads, axis=ctx.dim),)


def _unbind_signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    letters = _LETTERS[: len(shapes[0])]
    dim = params["dim"] % len(letters)
    rest = letters[:dim] + letters[dim + 1 :]
    return f"{letters[:dim]}[{letters[dim]}]{letters[dim + 1 :]}->{','.join([rest] * shapes[0][dim])}"


class Unbind(Function):
    """Cut along a dim into slices without that dim."""

    signature = _unbind_signature
    view = True

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int) -> tuple[Array, ...]:
        ctx.dim = dim
        return tuple([a[(slice(None),) * (dim % a.ndim) + (i,)] for i in range(a.shape[dim])])

    @staticmethod
    def backward(ctx: Context, *grads: Array) -> Gradients:
        return (np.stack(grads, axis=ctx.dim),)


class Tril(Function):
    """The lower triangle of the last two dims; zeros above diagonal `k`."""

    signature = "...[m][n]->...[m][n]"

    @staticmethod
    def forward(ctx: Context, a: Array, k: int = 0) -> Array:
        ctx.k = k
        return np.tril(a, k)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.tril(g, ctx.k),)


class Triu(Function):
    """The upper triangle of the last two dims; zeros below diagonal `k`."""

    signature = "...[m][n]->...[m][n]"

    @staticmethod
    def forward(ctx: Context, a: Array, k: int = 0) -> Array:
        ctx.k = k
        return np.triu(a, k)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.triu(g, ctx.k),)
