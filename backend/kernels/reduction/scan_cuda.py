"""CUDA running sums, products and extremes; the formulas are in ``scan.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Argument, Launcher, contiguous, each, empty

__all__ = ["launch", "running_largest", "running_product", "running_smallest", "running_sum"]

launch = Launcher(DeviceSource("reduction/scan.cu"))

_MOST_ROWS = 1 << 20  # in one grid; blocks go on from there by themselves


def running_sum(x: Array, dim: int) -> Array:
    out = empty(x, x.shape)
    _scan("running_sum", x, dim, out)
    return out


def running_product(x: Array, dim: int) -> Array:
    out = empty(x, x.shape)
    _scan("running_product", x, dim, out)
    return out


def running_largest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extreme(x, dim, 1.0)


def running_smallest(x: Array, dim: int) -> tuple[Array, Array]:
    return _extreme(x, dim, -1.0)


def _extreme(x: Array, dim: int, sign: float) -> tuple[Array, Array]:
    out, places = empty(x, x.shape), empty(x, x.shape, np.int64)
    _scan("running_extreme", x, dim, out, places, sign)
    return out, places


def _scan(name: str, x: Array, dim: int, *arguments: Argument) -> None:
    n, inner, outer = x.shape[dim], math.prod(x.shape[dim + 1 :]), math.prod(x.shape[:dim])
    x = contiguous(x)
    if x.size == 0:
        return
    if inner == 1:
        threads = 32
        while threads < 1024 and threads < n:
            threads *= 2
        sizes = (min(outer, _MOST_ROWS),), (threads,)
        launch(f"{name}_rows", x.dtype, sizes, x, *arguments, outer, n)
    else:
        lines = outer * inner
        launch(f"{name}_lines", x.dtype, each(lines, 16), x, *arguments, n, inner, lines)
