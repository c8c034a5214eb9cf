"""Values between the places of a grid: along each spatial dim, a weighted sum of a few neighbours.

`Resample` and `Unsample` are each other's adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.window.resampling import resample_backward, resample_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Resample", "Sampling", "Unsample"]


class Sampling(NamedTuple):
    """How one dim is sampled.

    Attributes
    ----------
    kind : {"nearest", "nearest-exact", "linear", "cubic"}
    source, target : int
        Sizes of the dim before and after.
    step : float
        Places in the source from one place of the target to the next.
    align : bool
        Whether the first and last places of both are the same, or else the edges of the grids.
    smooth : bool
        Whether neighbours are weighed over at least `step` places, so that no detail is skipped.
    """

    kind: Literal["nearest", "nearest-exact", "linear", "cubic"]
    source: int
    target: int
    step: float
    align: bool = False
    smooth: bool = False


_PLACES, _OUTS = "[x][y][z]", "[u][v][w]"


def _signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    length = 3 * (len(shapes[0]) - 2)
    return f"nc{_PLACES[:length]}->nc{_OUTS[:length]}"


class Resample(Function):
    """Sample the spatial dims of (n, c, ...), each by its `Sampling`."""

    signature = _signature

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """Two per neighbour, in the last dim first."""
        count, total = math.prod(shapes[0]), 0
        for sampling in reversed(params["samplings"]):
            count = count // max(sampling.source, 1) * sampling.target
            total += 2 * _taps(sampling) * count
        return total

    @staticmethod
    def forward(ctx: Context, x: Array, samplings: tuple[Sampling, ...]) -> Array:
        ctx.samplings = samplings
        for axis, index, weight in _neighbours(samplings, x):
            shape = x.shape
            rows = np.reshape(x, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))
            out = resample_forward(rows, index, weight)
            x = np.reshape(out, (*shape[:axis], out.shape[1], *shape[axis + 1 :]))
        return x

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (Unsample.apply(g, samplings=ctx.samplings),)


class Unsample(Function):
    """The adjoint of `Resample`: each element is added, weighted, to the neighbours that it came from."""

    signature = _signature

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        """As many as sampling."""
        sources = tuple(sampling.source for sampling in params["samplings"])
        return Resample.flops(((*shapes[0][:2], *sources),), params)

    @staticmethod
    def forward(ctx: Context, g: Array, samplings: tuple[Sampling, ...]) -> Array:
        ctx.samplings = samplings
        for axis, index, weight in reversed(list(_neighbours(samplings, g))):
            shape, size = g.shape, samplings[axis - 2].source
            rows = np.reshape(g, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))
            g = np.reshape(
                resample_backward(rows, index, weight, size), (*shape[:axis], size, *shape[axis + 1 :])
            )
        return g

    @staticmethod
    def backward(ctx: Context, h: Array) -> Gradients:
        return (Resample.apply(h, samplings=ctx.samplings),)


def _neighbours(samplings: tuple[Sampling, ...], like: Array) -> Iterator[tuple[int, Array, Array]]:
    """The axis, the places of the neighbours and their weights, for each dim that changes, last dim first."""
    for axis in range(len(samplings) + 1, 1, -1):
        sampling = samplings[axis - 2]
        if sampling.source != sampling.target or sampling.step != 1.0:
            places, weights = _weighed(sampling, like)
            yield axis, places, weights


def _weighed(sampling: Sampling, like: Array) -> tuple[Array, Array]:
    """Places and weights of the neighbours of each target place, both of shape (taps, target)."""
    kind, size, step = sampling.kind, sampling.source, sampling.step
    real = like.dtype if like.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    target = np.arange(sampling.target, like=like).astype(real)
    if kind in ("nearest", "nearest-exact"):
        # In float32 whatever the input is, as elsewhere: rounding decides which neighbour is the nearest.
        narrow = target.astype(np.float32) + (0.5 if kind == "nearest-exact" else 0.0)
        place = np.floor(narrow * step).astype(np.int64)
        return np.expand_dims(np.minimum(place, size - 1), 0), np.ones_like(
            np.expand_dims(target, 0), dtype=like.dtype
        )
    if sampling.smooth:
        return _smoothed(sampling, target)
    at = target * step if sampling.align else (target + 0.5) * step - 0.5
    if kind == "linear":
        at = np.maximum(at, 0.0)
    first = np.floor(at)
    rest = np.clip(at - first, 0.0, 1.0)
    weights = [1.0 - rest, rest] if kind == "linear" else _cubic(rest)
    lowest = first.astype(np.int64) - (0 if kind == "linear" else 1)
    places = [np.clip(lowest + tap, 0, size - 1) for tap in range(len(weights))]
    return np.stack(places), np.stack(weights)


def _cubic(rest: Array) -> list[Array]:
    """Weights of the four neighbours by cubic convolution (Keys 1981) with a slope of -0.75 at 1."""
    slope = -0.75

    def near(x: Array) -> Array:
        return ((slope + 2.0) * x - (slope + 3.0)) * x * x + 1.0

    def far(x: Array) -> Array:
        return ((slope * x - 5.0 * slope) * x + 8.0 * slope) * x - 4.0 * slope

    return [far(rest + 1.0), near(rest), near(1.0 - rest), far(2.0 - rest)]


def _smoothed(sampling: Sampling, target: Array) -> tuple[Array, Array]:
    """Neighbours within reach of a filter that is as wide as the step, and their share."""
    widening = max(sampling.step, 1.0)
    reach = (1.0 if sampling.kind == "linear" else 2.0) * widening
    centre = (target + 0.5) * sampling.step
    first = np.maximum(np.trunc(centre - reach + 0.5), 0.0)
    last = np.minimum(np.trunc(centre + reach + 0.5), float(sampling.source))
    taps = range(_taps(sampling))
    weights = [
        np.where(first + tap < last, _filter(sampling.kind, (first + tap - centre + 0.5) / widening), 0.0)
        for tap in taps
    ]
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    places = [np.minimum(first.astype(np.int64) + tap, sampling.source - 1) for tap in taps]
    return np.stack(places), np.stack([weight / total for weight in weights])


def _filter(kind: str, x: Array) -> Array:
    """A triangle, or cubic convolution with a slope of -0.5 at 1, which smooths best."""
    x = np.absolute(x)
    if kind == "linear":
        return np.maximum(1.0 - x, 0.0)
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _taps(sampling: Sampling) -> int:
    """How many neighbours are weighed."""
    if sampling.smooth:
        reach = (1.0 if sampling.kind == "linear" else 2.0) * max(sampling.step, 1.0)
        return math.ceil(reach) * 2 + 1
    return {"linear": 2, "cubic": 4}.get(sampling.kind, 1)
