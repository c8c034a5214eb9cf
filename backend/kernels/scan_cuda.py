"""CUDA running sums; the formula is in ``scan.py``."""

from __future__ import annotations

import math

from shardwise.backend.array import Array
from shardwise.backend.kernels.device_source import DeviceSource
from shardwise.backend.kernels.launch_cuda import Launcher, contiguous, each, empty

__all__ = ["launch", "running_sum"]

launch = Launcher(DeviceSource("scan.cu"))

_MOST_ROWS = 1 << 20  # in one grid; blocks go on from there by themselves


def running_sum(x: Array, dim: int) -> Array:
    n, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    outer = math.prod(x.shape[:dim])
    x, out = contiguous(x), empty(x, x.shape)
    if x.size == 0:
        return out
    if inner == 1:
        threads = 32
        while threads < 1024 and threads < n:
            threads *= 2
        launch("running_sum_rows", x.dtype, ((min(outer, _MOST_ROWS),), (threads,)), x, out, outer, n)
    else:
        launch("running_sum_lines", x.dtype, each(outer * inner, 16), x, out, n, inner, outer * inner)
    return out
