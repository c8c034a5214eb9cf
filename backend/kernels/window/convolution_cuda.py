"""CUDA windows and depthwise convolutions, in up to three dims.

The formulas are in ``convolution.py`` and ``depthwise.py``.
"""

from __future__ import annotations

import math

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, contiguous, device_table, each, empty, rows

__all__ = [
    "add_windows_",
    "depthwise_forward",
    "depthwise_input",
    "depthwise_weight",
    "launch",
    "take_windows_",
]

launch = Launcher(DeviceSource("window/convolution.cu"))


def take_windows_(columns: Array, x: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    kernel, out = columns.shape[1 : x.ndim - 1], columns.shape[x.ndim :]
    plan = _plan(x, x.shape[:2], x.shape[2:], kernel, out, stride, padding, dilation)
    launch("take_windows", x.dtype, each(columns.size, 16), columns, contiguous(x), plan, columns.size)


def add_windows_(x: Array, columns: Array, stride: Shape, padding: Shape, dilation: Shape) -> None:
    kernel, out = columns.shape[1 : x.ndim - 1], columns.shape[x.ndim :]
    plan = _plan(x, x.shape[:2], x.shape[2:], kernel, out, stride, padding, dilation)
    launch("add_windows", x.dtype, each(x.size, 16), x, columns, plan, x.size)


def depthwise_forward(
    x: Array, weight: Array, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    y = empty(x, (x.shape[0], weight.shape[0], *size))
    plan = _plan(x, x.shape[:2], x.shape[2:], weight.shape[2:], size, stride, padding, dilation)
    many = _many(weight.shape[0], x.shape[1])
    arguments = (contiguous(x), contiguous(weight), plan, many, y, y.size)
    launch("depthwise_forward", x.dtype, each(y.size, 16), *arguments)
    return y


def depthwise_input(
    g: Array, weight: Array, channels: int, size: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    images = g.shape[0], channels
    dx = empty(g, (*images, *size))
    plan = _plan(g, images, size, weight.shape[2:], g.shape[2:], stride, padding, dilation)
    many = _many(weight.shape[0], channels)
    arguments = (contiguous(g), contiguous(weight), plan, many, dx, dx.size)
    launch("depthwise_input", g.dtype, each(dx.size, 16), *arguments)
    return dx


def depthwise_weight(
    x: Array, g: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Array:
    dweight = empty(x, (g.shape[1], 1, *kernel))
    plan = _plan(x, x.shape[:2], x.shape[2:], kernel, g.shape[2:], stride, padding, dilation)
    places = g.shape[0] * math.prod(g.shape[2:])
    arguments = (contiguous(x), contiguous(g), plan, _many(g.shape[1], x.shape[1]), dweight, dweight.size)
    launch("depthwise_weight", x.dtype, rows(dweight.size, places, x.itemsize), *arguments)
    return dweight


def _many(outputs: int, channels: int) -> int:
    return outputs // max(channels, 1)


def _plan(
    like: Array,
    images: Shape,
    size: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Array:
    """The numbers of a ``Plan``, see ``places.cuh``; dims of one element in front make them three."""
    lead = 3 - len(size)
    ones, zeros = (1,) * lead, (0,) * lead
    numbers = (
        *(*images, *ones, *size, *ones, *kernel, *ones, *out),
        *(*ones, *stride, *zeros, *padding, *ones, *dilation),
    )
    return device_table(like, numbers)
