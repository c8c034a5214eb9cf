"""CUDA softmax; the formulas are in ``softmax.py``."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, check_same_shape, empty, matrix, rows

__all__ = [
    "launch",
    "log_softmax_backward",
    "log_softmax_forward",
    "softmax_backward",
    "softmax_forward",
]

launch = Launcher(DeviceSource("row/softmax.cu"))


def softmax_forward(x: Array) -> Array:
    return _forward("softmax_forward", x)


def softmax_backward(g: Array, y: Array) -> Array:
    return _backward("softmax_backward", g, y)


def log_softmax_forward(x: Array) -> Array:
    return _forward("log_softmax_forward", x)


def log_softmax_backward(g: Array, y: Array) -> Array:
    return _backward("log_softmax_backward", g, y)


def _forward(name: str, x: Array) -> Array:
    y = empty(x, x.shape)
    x, count, columns = matrix(x)
    launch(name, x.dtype, rows(count, columns, x.itemsize), x, y, count, columns)
    return y


def _backward(name: str, g: Array, y: Array) -> Array:
    check_same_shape(name, g, y, "output")
    dx = empty(y, y.shape)
    y, count, columns = matrix(y)
    launch(name, y.dtype, rows(count, columns, y.itemsize), matrix(g)[0], y, dx, count, columns)
    return dx
