"""Sliding windows laid out as columns, and columns added up where windows overlap: each other's adjoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.window.convolution import add_windows_, take_windows_
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Fold", "Unfold"]

_LETTERS = "[x][y][z]"


def _unfold_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    return f"n[c]{_LETTERS[: 3 * (len(shapes[0]) - 2)]}->n[k][l]"


def _fold_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    return f"n[k][l]->n[c]{_LETTERS[: 3 * len(params['size'])]}"


class Unfold(Function):
    """From (n, c, *places) to (n, c * elements of `kernel`, windows), of which `out` lie along each dim."""

    signature = _unfold_signature
    exact = True
    linear = "all"

    @staticmethod
    def forward(
        ctx: Context, x: Array, kernel: Shape, out: Shape, stride: Shape, padding: Shape, dilation: Shape
    ) -> Array:
        batch, channels = x.shape[:2]
        ctx.params = {"kernel": kernel, "size": x.shape[2:], "out": out}
        ctx.params |= {"stride": stride, "padding": padding, "dilation": dilation}
        columns = np.empty_like(x, order="C", shape=(channels, *kernel, batch, *out))
        take_windows_(columns, x, stride, padding, dilation)
        rows = np.reshape(columns, (channels * math.prod(kernel), batch, math.prod(out)))
        return np.swapaxes(rows, 0, 1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Fold.apply(g, **ctx.params),)


class Fold(Function):
    """From (n, c * elements of `kernel`, windows) to (n, c, *size), adding up where windows overlap."""

    signature = _fold_signature
    linear = "all"

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        kernel: Shape,
        size: Shape,
        out: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
    ) -> Array:
        batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
        ctx.params = {
            "kernel": kernel,
            "out": out,
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
        }
        columns = np.empty_like(
            x, order="C", shape=(channels, *kernel, batch, *out)
        )  # a copy, since it is used up
        flat = np.reshape(columns, (x.shape[1], batch, x.shape[2]))
        flat[...] = np.swapaxes(x, 0, 1)
        result = np.zeros_like(x, order="C", shape=(batch, channels, *size))
        add_windows_(result, columns, stride, padding, dilation)
        return result

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unfold.apply(g, **ctx.params),)
