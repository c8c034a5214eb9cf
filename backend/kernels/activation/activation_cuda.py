"""CUDA activations; the formulas are in ``activation.py``."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, check_same_shape, contiguous, each, empty

__all__ = ["erf", "gelu_backward", "gelu_forward", "gelu_tanh_backward", "gelu_tanh_forward", "launch"]

launch = Launcher(DeviceSource("activation/activation.cu"))


def erf(x: Array) -> Array:
    return _forward("erf_each", x)


def gelu_forward(x: Array) -> Array:
    return _forward("gelu_forward", x)


def gelu_backward(g: Array, x: Array) -> Array:
    return _backward("gelu_backward", g, x)


def gelu_tanh_forward(x: Array) -> Array:
    return _forward("gelu_tanh_forward", x)


def gelu_tanh_backward(g: Array, x: Array) -> Array:
    return _backward("gelu_tanh_backward", g, x)


def _forward(name: str, x: Array) -> Array:
    x = contiguous(x)
    y = empty(x, x.shape)
    launch(name, x.dtype, each(x.size, x.itemsize), x, y, x.size)
    return y


def _backward(name: str, g: Array, x: Array) -> Array:
    check_same_shape(name, g, x)
    g, x = contiguous(g), contiguous(x)
    dx = empty(x, x.shape)
    launch(name, x.dtype, each(x.size, x.itemsize), g, x, dx, x.size)
    return dx
