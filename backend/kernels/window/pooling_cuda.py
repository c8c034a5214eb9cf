"""CUDA pooling, in up to three dims; the formulas are in ``pooling.py``."""

from __future__ import annotations

import functools
import math
from itertools import accumulate

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, contiguous, device_table, each, empty
from shardwise.backend.kernels.place.scatter_cuda import scatter_along
from shardwise.backend.kernels.window.pooling import Counts, Windows

__all__ = ["average_backward", "average_forward", "launch", "maximum_backward", "maximum_forward"]

launch = Launcher(DeviceSource("window/pooling.cu"))


def average_forward(x: Array, windows: Windows, counts: Counts) -> Array:
    out = empty(x, (*x.shape[:2], *map(len, windows)))
    sizes = *_three(x.shape[2:]), *_three(out.shape[2:])
    table = device_table(x, _seen(windows, counts))
    launch("average_forward", x.dtype, each(out.size, 16), contiguous(x), table, *sizes, out, out.size)
    return out


def average_backward(g: Array, windows: Windows, counts: Counts, size: Shape) -> Array:
    dx = empty(g, (*g.shape[:2], *size))
    sizes = *_three(size), *_three(g.shape[2:])
    tables = device_table(g, _seen(windows, counts)), device_table(g, _seeing(windows, size))
    launch("average_backward", g.dtype, each(dx.size, 16), contiguous(g), *tables, *sizes, dx, dx.size)
    return dx


def maximum_forward(x: Array, windows: Windows) -> tuple[Array, Array]:
    out = empty(x, (*x.shape[:2], *map(len, windows)))
    places = empty(x, out.shape, np.int64)
    sizes = *_three(x.shape[2:]), *_three(out.shape[2:])
    table = device_table(x, _seen(windows, tuple((1,) * len(dim) for dim in windows)))
    launch(
        "maximum_forward", x.dtype, each(out.size, 16), contiguous(x), table, *sizes, out, places, out.size
    )
    return out, places


def maximum_backward(g: Array, places: Array, size: Shape) -> Array:
    planes, n = math.prod(g.shape[:2]), math.prod(g.shape[2:])
    flat = contiguous(g).reshape(planes, n, 1)
    dx = scatter_along(flat, contiguous(places).reshape(planes, n, 1), math.prod(size))
    return dx.reshape(*g.shape[:2], *size)


def _three(size: Shape) -> Shape:
    return (1,) * (3 - len(size)) + size


@functools.lru_cache(256)
def _seen(windows: Windows, counts: Counts) -> tuple[int, ...]:
    """Per output place of each of three dims: start, stop and step of what it sees, and its count."""
    lead = 3 - len(windows)
    ranges = ((range(1),),) * lead + windows
    numbers = ((1,),) * lead + counts
    return tuple(
        number
        for dim, divisors in zip(ranges, numbers, strict=True)
        for seen, count in zip(dim, divisors, strict=True)
        for number in (seen.start, seen.stop, seen.step, count)
    )


@functools.lru_cache(256)
def _seeing(windows: Windows, size: Shape) -> tuple[int, ...]:
    """Per input place of each of three dims, where its list begins and how long it is; then the lists."""
    lead = 3 - len(windows)
    lists: list[list[int]] = []
    for ranges, n in zip(((range(1),),) * lead + windows, _three(size), strict=True):
        outputs: list[list[int]] = [[] for _ in range(n)]
        for place, seen in enumerate(ranges):
            for at in seen:
                outputs[at].append(place)
        lists += outputs
    lengths = [len(outputs) for outputs in lists]
    starts = [2 * len(lists) + before for before in accumulate(lengths, initial=0)]
    heads = [number for pair in zip(starts, lengths, strict=False) for number in pair]
    return (*heads, *(place for outputs in lists for place in outputs))
