"""Means and maxima over windows: per spatial dim and output place, a range of input places.

A window of several dims is the product of one range per dim, so that the formulas go dim by dim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.kernels.window.convolution import Key

__all__ = ["Counts", "Windows", "average_backward", "average_forward", "maximum_backward", "maximum_forward"]

_FUSED = "shardwise.backend.kernels.window.pooling_cpu"
_CUDA = "shardwise.backend.kernels.window.pooling_cuda"

Windows: TypeAlias = tuple[tuple[range, ...], ...]
"""Per spatial dim, per output place: the input places it sees; at least one for maxima."""

Counts: TypeAlias = tuple[tuple[int, ...], ...]
"""Per spatial dim, per output place: what its sum is divided by."""


def _average_forward(x: Array, windows: Windows, counts: Counts) -> Array:
    """Add up each window and divide by the product of its counts.

    Parameters
    ----------
    x : array, shape (batch, channels, *size)
    windows : tuple of tuple of range
    counts : tuple of tuple of int

    Returns
    -------
    array, shape (batch, channels, *(len(dim) for dim in windows))
    """
    for axis, ranges in enumerate(windows, 2):
        out = np.zeros_like(x, order="C", shape=(*x.shape[:axis], len(ranges), *x.shape[axis + 1 :]))
        if len(ranges) < max(map(len, ranges), default=0):
            for place, seen in enumerate(ranges):
                out[_at(axis, place)] = np.sum(x[_at(axis, _slice(seen))], axis=axis)
        else:
            for places, inputs in _runs(ranges):
                out[_at(axis, places)] += x[_at(axis, inputs)]
        x = out
    return _divided(x, counts)


def _average_backward(g: Array, windows: Windows, counts: Counts, size: Shape) -> Array:
    """The gradient of :func:`average_forward`, and its adjoint.

    Parameters
    ----------
    g : array, shape (batch, channels, *(len(dim) for dim in windows))
    windows, counts
        As in the forward.
    size : tuple of int
        Of the input's spatial dims.

    Returns
    -------
    array, shape (batch, channels, *size)
    """
    g = _divided(g, counts)
    for axis, (ranges, n) in enumerate(zip(windows, size, strict=True), 2):
        dx = np.zeros_like(g, order="C", shape=(*g.shape[:axis], n, *g.shape[axis + 1 :]))
        if len(ranges) < max(map(len, ranges), default=0):
            for place, seen in enumerate(ranges):
                dx[_at(axis, _slice(seen))] += g[_at(axis, slice(place, place + 1))]
        else:
            for places, inputs in _runs(ranges):
                dx[_at(axis, inputs)] += g[_at(axis, places)]
        g = dx
    return g


def _maximum_forward(x: Array, windows: Windows) -> tuple[Array, Array]:
    """The largest element of each window; of several the first, and NaN is larger than all else.

    Parameters
    ----------
    x : array, shape (batch, channels, *size)
    windows : tuple of tuple of range

    Returns
    -------
    largest : array, shape (batch, channels, *(len(dim) for dim in windows))
    places : array of int64, of the same shape
        Where it is, counted over all spatial dims of `x`.
    """
    span = 1
    places: Array = np.zeros_like(x, order="C", dtype=np.int64)
    for axis in range(x.ndim - 1, 1, -1):
        steps = np.reshape(np.arange(x.shape[axis], like=x) * span, (-1, *(1,) * (x.ndim - axis - 1)))
        span *= x.shape[axis]
        x, places = _maximum_along(x, places + steps, axis, windows[axis - 2])
    return x, places


def _maximum_along(x: Array, places: Array, axis: int, ranges: Sequence[range]) -> tuple[Array, Array]:
    """The largest elements along one dim, and the entries of `places` that belong to them."""
    shape = (*x.shape[:axis], len(ranges), *x.shape[axis + 1 :])
    largest = np.empty_like(x, order="C", shape=shape)
    found = np.empty_like(places, order="C", shape=shape)
    if len(ranges) < max(map(len, ranges), default=0):
        for place, seen in enumerate(ranges):
            part, at = x[_at(axis, _slice(seen))], _at(axis, slice(place, place + 1))
            first = np.argmax(part, axis=axis, keepdims=True)
            largest[at] = np.take_along_axis(part, first, axis=axis)
            found[at] = np.take_along_axis(places[_at(axis, _slice(seen))], first, axis=axis)
        return largest, found
    for place, seen in enumerate(ranges):  # a start to compare with
        largest[_at(axis, place)] = x[_at(axis, seen.start)]
        found[_at(axis, place)] = places[_at(axis, seen.start)]
    for outputs, inputs in _runs(ranges):
        at, candidate, best = _at(axis, outputs), x[_at(axis, inputs)], largest[_at(axis, outputs)]
        better = (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
        largest[at] = np.where(better, candidate, best)
        found[at] = np.where(better, places[_at(axis, inputs)], found[at])
    return largest, found


def _maximum_backward(g: Array, places: Array, size: Shape) -> Array:
    """Zeros to which each element of `g` is added at its place.

    Parameters
    ----------
    g : array, shape (batch, channels, *out)
    places : integer array, of the same shape
        Counted over all spatial dims of the result, each in range.
    size : tuple of int
        Of the result's spatial dims.

    Returns
    -------
    array, shape (batch, channels, *size)
    """
    batch, channels = g.shape[:2]
    planes, length = batch * channels, math.prod(size)
    rows = np.reshape(places, (planes, math.prod(g.shape[2:])))
    starts = np.reshape(np.arange(planes, like=g) * length, (planes, 1))
    flat = special.scatter_add((planes * length,), np.reshape(rows + starts, (-1,)), np.reshape(g, (-1,)))
    return np.reshape(flat, (batch, channels, *size))


def _divided(x: Array, counts: Counts) -> Array:
    """Divide by the product of one number per place of each spatial dim."""
    for axis, numbers in enumerate(counts, 2):
        divisor = np.ones_like(x, order="C", shape=(len(numbers), *(1,) * (x.ndim - axis - 1)))
        for place, number in enumerate(numbers):
            if number != 1:
                divisor[place] = number
        x = x / divisor
    return x


def _at(axis: int, places: int | slice) -> Key:
    """The index of places along one dim."""
    return (*(slice(None),) * axis, places)


def _slice(places: range) -> slice:
    return slice(places.start, places.stop, places.step)


def _runs(ranges: Sequence[range]) -> Iterator[tuple[slice, slice]]:
    """The pairs of an output place and an input place that it sees, as slices of evenly spaced ones.

    In one pair of slices no input place comes twice, and input places come in rising order for each
    output.
    """
    for tap in range(max(map(len, ranges), default=0)):
        run: list[int] = []  # inputs
        for place, seen in enumerate(ranges):
            if tap >= len(seen):
                if run:
                    yield _run(place, run)
                run = []
                continue
            at = seen[tap]
            fits = len(run) < 2 or at - run[-1] == run[-1] - run[-2]
            if run and not (fits and at > run[-1]):
                yield _run(place, run)
                run = []
            run.append(at)
        if run:
            yield _run(len(ranges), run)


def _run(stop: int, inputs: list[int]) -> tuple[slice, slice]:
    step = inputs[1] - inputs[0] if len(inputs) > 1 else 1
    return slice(stop - len(inputs), stop), slice(inputs[0], inputs[-1] + 1, step)


average_forward = Kernel(
    _average_forward, f"{_FUSED}:average_forward", arrays=1, cuda=f"{_CUDA}:average_forward"
)
average_backward = Kernel(
    _average_backward, f"{_FUSED}:average_backward", arrays=1, cuda=f"{_CUDA}:average_backward"
)
maximum_forward = Kernel(
    _maximum_forward, f"{_FUSED}:maximum_forward", arrays=1, cuda=f"{_CUDA}:maximum_forward"
)
maximum_backward = Kernel(
    _maximum_backward,
    f"{_FUSED}:maximum_backward",
    arrays=2,
    integer="places",
    cuda=f"{_CUDA}:maximum_backward",
)
