"""Choices between values, element by element, and their gradients."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.pointwise.pointwise import pointwise_kernel

__all__ = ["choose", "fill", "fill_rest", "larger_share", "within"]

_FUSED = "shardwise.backend.kernels.pointwise.choice_cpu"


def _choose(a: Array, b: Array, mask: Array) -> Array:
    """``a`` where `mask` is true, else ``b``."""
    return np.where(mask, a, b)


def _fill(x: Array, mask: Array, value: float) -> Array:
    """`value` where `mask` is true, else ``x``."""
    return np.where(mask, value, x)


def _fill_rest(x: Array, mask: Array, value: float) -> Array:
    """``x`` where `mask` is true, else `value`."""
    return np.where(mask, x, value)


def _within(values: Array, x: Array, low: float, high: float) -> Array:
    """`values` where ``low <= x <= high``, else 0, also where `x` is NaN: the gradient of clipping."""
    return np.where((x >= low) & (x <= high), values, 0.0)


def _larger_share(g: Array, a: Array, b: Array) -> Array:
    """The gradient of ``maximum(a, b)`` with respect to `a`, times `g`; half of it where both are equal.

    With `a` and `b` exchanged it is that with respect to `b`; that of ``minimum(a, b)`` with respect to `a`
    is the same as of ``maximum(b, a)`` with respect to `b`.
    """
    return np.where(a < b, 0.0, np.where(np.equal(a, b), 0.5 * g, g))


choose = pointwise_kernel(_choose, f"{_FUSED}:choose", arrays=3, mask="mask")
fill = pointwise_kernel(_fill, f"{_FUSED}:fill", arrays=2, mask="mask")
fill_rest = pointwise_kernel(_fill_rest, f"{_FUSED}:fill_rest", arrays=2, mask="mask")
within = pointwise_kernel(_within, f"{_FUSED}:within", arrays=2)
larger_share = pointwise_kernel(_larger_share, f"{_FUSED}:larger_share", arrays=3)
