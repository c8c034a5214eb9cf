"""Fused combinations of arithmetic for NumPy arrays, one element each; see ``combination.py``."""

from __future__ import annotations

import math

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise

__all__ = ["add_product", "add_quotient", "clip", "cube", "interpolate", "inverse_root"]


@pointwise
def add_product(a: float, b: float, c: float, value: float) -> float:
    return a + value * (b * c)


@pointwise
def add_quotient(a: float, b: float, c: float, value: float) -> float:
    return a + value * (b / c)


@pointwise
def interpolate(a: float, b: float, weight: float) -> float:
    real = type(a)
    span = b - a
    near, far = a + weight * span, b - (real(1) - weight) * span
    return near if abs(weight) < 0.5 else far


@pointwise
def clip(x: float, low: float, high: float) -> float:
    x = low if x < low else x
    return high if x > high else x


@pointwise
def cube(x: float) -> float:
    return x * x * x


@pointwise
def inverse_root(x: float) -> float:
    real = type(x)
    return real(1) / math.sqrt(x)
