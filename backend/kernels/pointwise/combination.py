"""Several operations of arithmetic in one pass over the elements."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = ["add_product", "add_quotient", "clip", "cube", "interpolate", "inverse_root"]

_FUSED = "shardwise.backend.kernels.pointwise.combination_cpu"


def _add_product(a: Array, b: Array, c: Array, value: float) -> Array:
    """``a + value * b * c``."""
    return a + value * (b * c)


def _add_quotient(a: Array, b: Array, c: Array, value: float) -> Array:
    """``a + value * b / c``."""
    return a + value * (b / c)


def _interpolate(a: Array, b: Array, weight: Array) -> Array:
    """``a + weight * (b - a)``, worked out from the nearer end: at a weight of 1 it is exactly `b`."""
    span = b - a
    return np.where(np.abs(weight) < 0.5, a + weight * span, b - (1.0 - weight) * span)


def _clip(x: Array, low: float, high: float) -> Array:
    """``x`` kept between `low` and `high`; `high` where the two cross."""
    return np.clip(x, low, high)


def _cube(x: Array) -> Array:
    """``x * x * x``."""
    return x * x * x


def _inverse_root(x: Array) -> Array:
    """``1 / sqrt(x)``."""
    return 1.0 / np.sqrt(x)


add_product = pointwise_kernel(_add_product, f"{_FUSED}:add_product", arrays=3)
add_quotient = pointwise_kernel(_add_quotient, f"{_FUSED}:add_quotient", arrays=3)
interpolate = pointwise_kernel(_interpolate, f"{_FUSED}:interpolate", arrays=3)
clip = pointwise_kernel(_clip, f"{_FUSED}:clip", arrays=1)
cube = pointwise_kernel(_cube, f"{_FUSED}:cube", arrays=1)
inverse_root = pointwise_kernel(_inverse_root, f"{_FUSED}:inverse_root", arrays=1)
