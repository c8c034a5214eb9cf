"""Fused sigmoids for NumPy arrays; the formulas are in ``sigmoid.py``."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.function_cpu import log1p
from shardwise.backend.kernels.jit import float64, fused, read, write
from shardwise.backend.kernels.math_cpu import exp
from shardwise.backend.kernels.pointwise import of_one, of_two

__all__ = ["sigmoid_backward", "sigmoid_forward", "softplus_backward", "softplus_tail", "tanh_backward"]


def sigmoid_forward(x: Array) -> Array:
    return of_one(_sigmoid_forward, x)


def sigmoid_backward(g: Array, y: Array) -> Array:
    return of_two("sigmoid_backward", _sigmoid_backward, g, y)


def tanh_backward(g: Array, y: Array) -> Array:
    return of_two("tanh_backward", _tanh_backward, g, y)


def softplus_tail(x: Array) -> Array:
    return of_one(_softplus_tail, x)


def softplus_backward(g: Array, x: Array, beta: float, threshold: float) -> Array:
    return of_two("softplus_backward", _softplus_backward, g, x, beta, threshold)


@fused(lambda real: (read(real, 1), write(real, 1)))
def _sigmoid_forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    zero, one = real(0), real(1)
    for i in range(x.size):
        v = x[i]
        e = exp(-abs(v))
        y[i] = (e if v < zero else one) / (one + e)


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1)))
def _sigmoid_backward(g: Array, y: Array, dx: Array) -> None:
    one = y.dtype.type(1)
    for i in range(y.size):
        dx[i] = g[i] * y[i] * (one - y[i])


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1)))
def _tanh_backward(g: Array, y: Array, dx: Array) -> None:
    one = y.dtype.type(1)
    for i in range(y.size):
        dx[i] = g[i] * (one - y[i] * y[i])


@fused(lambda real: (read(real, 1), write(real, 1)))
def _softplus_tail(x: Array, y: Array) -> None:
    for i in range(x.size):
        y[i] = log1p(exp(-abs(x[i])))


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1), float64, float64))
def _softplus_backward(g: Array, x: Array, dx: Array, beta: float, threshold: float) -> None:
    real = x.dtype.type
    one, steep, seam = real(1), real(beta), real(threshold)
    cut = real(min(threshold, 80.0))
    for i in range(x.size):
        v = x[i] * steep
        low = cut if v > cut else v
        e = exp(low)
        dx[i] = g[i] * (one if v > seam else e / (one + e))
