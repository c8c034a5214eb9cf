"""Means and maxima over windows, each given by a range of input places per dim and output place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.window.pooling import (
    Counts,
    Windows,
    average_backward,
    average_forward,
    maximum_backward,
    maximum_forward,
)
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.gather import Gather

__all__ = ["AveragePool", "AverageSpread", "MaxPool", "MaxUnpool"]

_PLACES, _OUTS = "[x][y][z]", "[u][v][w]"


def _signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    length = 3 * (len(shapes[0]) - 2)
    return f"nc{_PLACES[:length]}->nc{_OUTS[:length]}"


def _maximum_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    length = 3 * (len(shapes[0]) - 2)
    return f"nc{_PLACES[:length]}->nc{_OUTS[:length]},nc{_OUTS[:length]}"


def _unpool_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    length = 3 * (len(shapes[0]) - 2)
    return f"nc{_OUTS[:length]},nc{_OUTS[:length]}->nc{_PLACES[:length]}"


class AveragePool(Function):
    """The sum of each window of (n, c, ...), divided by the product of its counts."""

    signature = _signature
    linear = "all"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """One per element of each window."""
        return math.prod(shapes[0][:2]) * math.prod(sum(map(len, dim)) for dim in params["windows"])

    @staticmethod
    def forward(ctx: Context, x: Array, windows: Windows, counts: Counts) -> Array:
        ctx.params = {"windows": windows, "counts": counts}
        ctx.size = x.shape[2:]
        return average_forward(x, windows, counts)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (AverageSpread.apply(g, size=ctx.size, **ctx.params),)


class AverageSpread(Function):
    """The adjoint of `AveragePool`: each element, divided by its counts, added to all of its window."""

    signature = _signature
    linear = "all"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """One per element of each window."""
        return AveragePool.flops(shapes, params)

    @staticmethod
    def forward(ctx: Context, g: Array, windows: Windows, counts: Counts, size: Shape) -> Array:
        ctx.params = {"windows": windows, "counts": counts}
        return average_backward(g, windows, counts, size)

    @staticmethod
    def backward(ctx: Context, h: Array) -> Gradients:
        return (AveragePool.apply(h, **ctx.params),)


class MaxPool(Function):
    """The largest element of each window of (n, c, ...), and its place counted over all spatial dims.

    The gradient goes to that place alone: of equal elements to the first.
    """

    signature = _maximum_signature
    exact = True

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """One per element of each window."""
        return AveragePool.flops(shapes, params)

    @staticmethod
    def forward(ctx: Context, x: Array, windows: Windows) -> tuple[Array, Array]:
        out, places = maximum_forward(x, windows)
        ctx.size = x.shape[2:]
        ctx.save(places)
        return out, places

    @staticmethod
    def backward(ctx: Context, g: Array, _: Array) -> Gradients:
        (places,) = ctx.saved
        return (MaxUnpool.apply(g, places, size=ctx.size),)


class MaxUnpool(Function):
    """Zeros of `size`, to which each element of (n, c, ...) is added at its place."""

    signature = _unpool_signature
    exact = True  # sums are made in float32
    linear = (0,)

    @staticmethod
    def forward(ctx: Context, g: Array, places: Array, size: Shape) -> Array:
        ctx.save(places)
        return maximum_backward(g, places, size)

    @staticmethod
    def backward(ctx: Context, h: Array) -> Gradients:
        (places,) = ctx.saved
        return (_picked(h, places), None)


def _picked(x: Any, places: Any) -> Any:
    """The elements of (n, c, ...) at places counted over all spatial dims."""
    flat = (*x.shape[:2], math.prod(x.shape[2:]))
    rows = np.reshape(places, (*places.shape[:2], math.prod(places.shape[2:])))
    picked = Gather.apply(np.reshape(x, flat), rows, dim=2, negative=True)
    return np.reshape(picked, places.shape)
