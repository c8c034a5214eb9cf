"""CUDA gated units; the formulas are in ``gate.py``."""

from __future__ import annotations

import math

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, contiguous, each, empty

__all__ = ["glu_backward", "glu_forward", "launch", "swiglu_backward", "swiglu_forward"]

launch = Launcher(DeviceSource("activation/gate.cu"))


def glu_forward(x: Array, dim: int) -> Array:
    return _forward("glu_forward", x, dim)


def glu_backward(g: Array, x: Array, dim: int) -> Array:
    return _backward("glu_backward", g, x, dim)


def swiglu_forward(x: Array) -> Array:
    return _forward("swiglu_forward", x, -1)


def swiglu_backward(g: Array, x: Array) -> Array:
    return _backward("swiglu_backward", g, x, -1)


def _forward(name: str, x: Array, dim: int) -> Array:
    dim %= x.ndim
    y = empty(x, (*x.shape[:dim], x.shape[dim] // 2, *x.shape[dim + 1 :]))
    inner = math.prod(y.shape[dim:])
    launch(name, x.dtype, each(y.size, x.itemsize), contiguous(x), y, inner, y.size)
    return y


def _backward(name: str, g: Array, x: Array, dim: int) -> Array:
    dx = empty(x, x.shape)
    inner = math.prod(g.shape[dim % x.ndim :])
    launch(name, x.dtype, each(g.size, x.itemsize), contiguous(g), contiguous(x), dx, inner, g.size)
    return dx
