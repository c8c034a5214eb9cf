"""Ops that turn around, rotate and repeat what lies along dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["Flip", "Repeat", "Roll", "Tile"]


def _along_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    text = term(ndim, {d % ndim: LETTERS[d % ndim] for d in params["dims"]})
    return f"{text}->{text}"


class Flip(Function):
    """The elements along dims in reverse order: a copy."""

    signature = _along_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, dims: tuple[int, ...]) -> Array:
        ctx.dims = dims
        return np.flip(a, dims).copy()

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.flip(g, ctx.dims),)


class Roll(Function):
    """The elements along dims moved on by `shifts`; those that leave come in on the other side."""

    signature = _along_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
        ctx.shifts, ctx.dims = shifts, dims
        return np.roll(a, shifts, dims)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (np.roll(g, tuple(-shift for shift in ctx.shifts), ctx.dims),)


def _tile_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    repeats, ndim = params["repeats"], len(shapes[0])
    extra = len(repeats) - ndim
    fresh = iter(LETTERS[ndim:])
    before, after = "", "".join(f"[{next(fresh)}]" for _ in range(extra))
    for d, times in enumerate(repeats[extra:]):
        before += LETTERS[d] if times == 1 else f"[{LETTERS[d]}]"
        after += LETTERS[d] if times == 1 else f"[{next(fresh)}]"
    return f"{before}->{after}"


class Tile(Function):
    """The whole array several times along each dim; `repeats` has a count for each dim at least."""

    signature = _tile_signature
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, repeats: tuple[int, ...]) -> Array:
        ctx.shape, ctx.repeats = a.shape, repeats
        return np.tile(a, repeats)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        sizes = (1,) * (len(ctx.repeats) - len(ctx.shape)) + ctx.shape
        pairs = [n for pair in zip(ctx.repeats, sizes, strict=True) for n in pair]
        copies = tuple(range(0, len(pairs), 2))
        return (np.reshape(np.sum(np.reshape(g, pairs), axis=copies), ctx.shape),)


def _repeat_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"] % ndim
    return f"{term(ndim, {dim: LETTERS[dim]})}->{term(ndim, {dim: LETTERS[ndim]})}"


class Repeat(Function):
    """Each slice along `dim` several times in a row."""

    signature = _repeat_signature
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, repeats: int, dim: int) -> Array:
        ctx.shape, ctx.repeats, ctx.dim = a.shape, repeats, dim % a.ndim
        return np.repeat(a, repeats, axis=dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        shape, after = ctx.shape, ctx.dim + 1
        apart = np.reshape(g, (*shape[:after], ctx.repeats, *shape[after:]))
        return (np.sum(apart, axis=after),)
