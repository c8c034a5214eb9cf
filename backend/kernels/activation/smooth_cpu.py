"""Fused smooth activations for NumPy arrays, one element each; the formulas are in ``smooth.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise
from shardwise.backend.kernels.scalar.exponential_cpu import log1p_of_unit, sigmoid, tanh
from shardwise.backend.kernels.scalar.math_cpu import exp_of_negative

__all__ = [
    "log_sigmoid_backward", "log_sigmoid_forward", "mish_backward", "mish_forward", "sigmoid_backward",
    "sigmoid_forward", "soft_sign_backward", "soft_sign_forward", "softplus_backward", "softplus_forward",
    "tanh_backward", "tanh_shrink_backward",
]  # fmt: skip


@pointwise
def sigmoid_forward(x: float) -> float:
    return sigmoid(x)


@pointwise
def sigmoid_backward(g: float, y: float) -> float:
    real = type(y)
    return g * y * (real(1) - y)


@pointwise
def tanh_backward(g: float, y: float) -> float:
    real = type(y)
    return g * (real(1) - y * y)


@pointwise
def tanh_shrink_backward(g: float, x: float) -> float:
    t = tanh(x)
    return g * (t * t)


@pointwise
def softplus_forward(x: float, beta: float, threshold: float) -> float:
    real = type(x)
    scaled = x * beta
    soft = (scaled if scaled > 0.0 else real(0)) + log1p_of_unit(exp_of_negative(-abs(scaled)))
    soft = soft * (real(1) / beta)
    return x if scaled > threshold else soft


@pointwise
def softplus_backward(g: float, x: float, beta: float, threshold: float) -> float:
    scaled = x * beta
    low = g * sigmoid(scaled)
    return g if scaled > threshold else low


@pointwise
def log_sigmoid_forward(x: float) -> float:
    real = type(x)
    return (x if x < 0.0 else real(0)) - log1p_of_unit(exp_of_negative(-abs(x)))


@pointwise
def log_sigmoid_backward(g: float, x: float) -> float:
    return g * sigmoid(-x)


@pointwise
def mish_forward(x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-1000) if x < -1000.0 else x
    e = exp_of_negative(-abs(x))
    r = one / (one + e)
    left = e * r
    s = left if x < 0.0 else r
    q = r if x < 0.0 else left
    return x * (s * (one + q) / (one + q * q))


@pointwise
def mish_backward(g: float, x: float) -> float:
    real = type(x)
    one = real(1)
    x = real(-1000) if x < -1000.0 else x
    x = real(1000) if x > 1000.0 else x
    e = exp_of_negative(-abs(x))
    r = one / (one + e)
    left = e * r
    s = left if x < 0.0 else r
    q = r if x < 0.0 else left
    r = one / (one + q * q)
    return g * (s * r * ((one + q) + real(4) * x * q * q * r))


@pointwise
def soft_sign_forward(x: float) -> float:
    real = type(x)
    x = real(-1e30) if x < -1e30 else x
    x = real(1e30) if x > 1e30 else x
    return x / (real(1) + abs(x))


@pointwise
def soft_sign_backward(g: float, x: float) -> float:
    real = type(x)
    inverse = real(1) / (real(1) + abs(x))
    return g * inverse * inverse
