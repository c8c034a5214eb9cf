"""Fused choices for NumPy arrays, one element each; the formulas are in ``choice.py``."""

from __future__ import annotations

from shardwise.backend.kernels.pointwise.pointwise_cpu import pointwise

__all__ = ["choose", "fill", "fill_rest", "larger_share", "within"]


@pointwise
def choose(a: float, b: float, mask: bool) -> float:
    return a if mask else b


@pointwise
def fill(x: float, mask: bool, value: float) -> float:
    return value if mask else x


@pointwise
def fill_rest(x: float, mask: bool, value: float) -> float:
    return x if mask else value


@pointwise
def within(values: float, x: float, low: float, high: float) -> float:
    real = type(x)
    return values if (x >= low) & (x <= high) else real(0)


@pointwise
def larger_share(g: float, a: float, b: float) -> float:
    real = type(g)
    share = real(0.5) * g if a == b else g
    return real(0) if a < b else share
