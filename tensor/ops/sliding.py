"""Sliding windows over a dim. `Slide` and `Unslide` are each other's adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.letter import LETTERS, term

__all__ = ["Slide", "Unslide"]


def _slide_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0])
    dim = params["dim"]
    after = term(ndim, {dim: LETTERS[ndim]})
    return f"{term(ndim, {dim: LETTERS[dim]})}->{after}[{LETTERS[ndim + 1]}]"


class Slide(Function):
    """Windows of `size` over `dim`, `step` apart.

    Their number takes the dim's place, their elements lie along a new last dim. NumPy shows them without
    copying anything, and not to be written, because windows overlap.
    """

    signature = _slide_signature
    view = True
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, size: int, step: int) -> Array:
        length = a.shape[dim]
        ctx.kept = {"dim": dim, "size": size, "step": step, "length": length}
        if isinstance(a, np.ndarray) and size:
            windows = np.lib.stride_tricks.sliding_window_view(a, size, axis=dim)
            return windows[(slice(None),) * dim + (slice(None, None, step),)]
        count = (length - size) // step + 1
        places = np.arange(count, like=a)[:, None] * step + np.arange(size, like=a)
        return np.moveaxis(np.take(a, places, axis=dim), dim + 1, -1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unslide.apply(g, **ctx.kept),)


def _unslide_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    ndim = len(shapes[0]) - 1
    dim = params["dim"]
    before = term(ndim, {dim: LETTERS[ndim]})
    return f"{before}[{LETTERS[ndim + 1]}]->{term(ndim, {dim: LETTERS[dim]})}"


class Unslide(Function):
    """Zeros of `length` along `dim`, to which each window is added in its place."""

    signature = _unslide_signature
    linear = "all"

    @staticmethod
    def forward(ctx: Context, a: Array, dim: int, size: int, step: int, length: int) -> Array:
        ctx.kept = {"dim": dim, "size": size, "step": step}
        count = a.shape[dim]
        out = np.zeros_like(a, shape=(*a.shape[:dim], length, *a.shape[dim + 1 : -1]))
        moved = np.moveaxis(out, dim, 0)
        windows = np.moveaxis(a, dim, 0)
        if size <= count:  # the shorter of two loops: over the elements of a window, or over the windows
            for i in range(size):
                moved[i : i + (count - 1) * step + 1 : step] += windows[..., i]
        else:
            for i in range(count):
                moved[i * step : i * step + size] += np.moveaxis(windows[i], -1, 0)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Slide.apply(g, **ctx.kept),)
