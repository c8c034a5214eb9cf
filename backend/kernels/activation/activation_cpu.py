"""Fused activations for NumPy arrays; the formulas are in ``activation.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import fused, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.scalar.erf_cpu import exact_erf
from shardwise.backend.kernels.scalar.math_cpu import erf as quick_erf
from shardwise.backend.kernels.scalar.math_cpu import exp_of_negative

__all__ = ["erf", "gelu_backward", "gelu_forward", "gelu_tanh_backward", "gelu_tanh_forward"]

_SQRT_HALF = math.sqrt(0.5)
_INVERSE_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715
_CUT, _TANH_CUT = 40.0, 10.0  # see the plain formulas


def erf(x: Array) -> Array:
    x = contiguous(x)
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    y = np.empty_like(x)
    _erf(x.reshape(-1), y.reshape(-1))
    return y


def gelu_forward(x: Array) -> Array:
    x = contiguous(x)
    y = np.empty_like(x)
    _gelu_forward(x.reshape(-1), y.reshape(-1))
    return y


def gelu_backward(g: Array, x: Array) -> Array:
    g, x = _paired("gelu_backward", g, x)
    dx = np.empty_like(x)
    _gelu_backward(g.reshape(-1), x.reshape(-1), dx.reshape(-1))
    return dx


def gelu_tanh_forward(x: Array) -> Array:
    x = contiguous(x)
    y = np.empty_like(x)
    _gelu_tanh_forward(x.reshape(-1), y.reshape(-1))
    return y


def gelu_tanh_backward(g: Array, x: Array) -> Array:
    g, x = _paired("gelu_tanh_backward", g, x)
    dx = np.empty_like(x)
    _gelu_tanh_backward(g.reshape(-1), x.reshape(-1), dx.reshape(-1))
    return dx


def _paired(name: str, g: Array, x: Array) -> tuple[Array, Array]:
    if g.shape != x.shape:
        raise ShapeError(
            f"{name}: the gradient has shape {g.shape}, and the input {x.shape}; wanted the same."
        )
    return contiguous(g), contiguous(x)


@fused(lambda real: (read(real, 1), write(real, 1)))
def _erf(x: Array, y: Array) -> None:
    for i in range(x.size):
        y[i] = exact_erf(x[i])


@fused(lambda real: (read(real, 1), write(real, 1)))
def _gelu_forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    half, one, scale = real(0.5), real(1), real(_SQRT_HALF)
    for i in range(x.size):
        v = x[i]
        y[i] = half * v * (one + quick_erf(v * scale))


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1)))
def _gelu_backward(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    half, one, scale, peak = real(0.5), real(1), real(_SQRT_HALF), real(_INVERSE_SQRT_2PI)
    low, high = real(-_CUT), real(_CUT)
    for i in range(x.size):
        v = x[i]
        v = low if v < low else v
        v = high if v > high else v
        dx[i] = g[i] * (half * (one + quick_erf(v * scale)) + v * peak * exp_of_negative(-half * v * v))


# The tanh form is x * sigmoid(2u), and with s = exp(-2|u|) everything it needs comes without
# cancellation: sigmoid(2u) = (1 or s) / (1 + s), and its slope is 2s / (1 + s)**2 times that of u.


@fused(lambda real: (read(real, 1), write(real, 1)))
def _gelu_tanh_forward(x: Array, y: Array) -> None:
    real = x.dtype.type
    zero, one, minus_two = real(0), real(1), real(-2)
    scale, cubic = real(_SQRT_2_OVER_PI), real(_CUBIC)
    for i in range(x.size):
        v = x[i]
        u = scale * (v + cubic * v * v * v)
        s = exp_of_negative(minus_two * abs(u))
        y[i] = v * ((one if u >= zero else s) / (one + s))


@fused(lambda real: (read(real, 1), read(real, 1), write(real, 1)))
def _gelu_tanh_backward(g: Array, x: Array, dx: Array) -> None:
    real = x.dtype.type
    zero, one, two, low, high = real(0), real(1), real(2), real(-_TANH_CUT), real(_TANH_CUT)
    scale, cubic, triple = real(_SQRT_2_OVER_PI), real(_CUBIC), real(3 * _CUBIC)
    for i in range(x.size):
        v = x[i]
        v = low if v < low else v
        v = high if v > high else v
        u = scale * (v + cubic * v * v * v)
        s = exp_of_negative(-two * abs(u))
        r = one / (one + s)
        slope = two * s * r * r * scale * (one + triple * v * v)
        dx[i] = g[i] * ((one if u >= zero else s) * r + v * slope)
