"""What a rank holds of an array, with the terms of partial ones made up: the same on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.dtensor.layout import Coordinate, Layout
from shardwise.dtensor.placement import Partial

__all__ = ["part_of", "partial_kinds"]


def partial_kinds(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the reductions that arrays of a dtype can be terms of."""
    return {
        "f": ("sum", "avg", "max", "min", "prod"),
        "c": ("sum", "avg", "prod"),
        "b": ("bor", "band", "bxor"),
    }.get(dtype.kind, ("sum", "max", "min", "prod", "bor", "band", "bxor") if dtype.kind in "iu" else ())


def part_of(whole: Array, layout: Layout, here: Coordinate) -> Array:
    """Return what the rank at a coordinate holds of `whole`.

    Along partial axes these are terms that differ from the whole and between ranks, so that whoever takes a
    term for the value is found out.
    """
    term = whole
    for axis in layout.partial:
        placement = layout.placements[axis]
        assert isinstance(placement, Partial)
        term = _term(term, placement.reduce_op, axis, here[axis], layout.mesh.shape[axis])
    return np.array(term[layout.box(here).slices], layout.dtype, order="C")


def _term(value: Array, op: str, axis: int, at: int, width: int) -> Array:
    """Return the term of one rank along one axis; together they give `value`."""
    noise = [_noise(value, axis, i) for i in range(width - 1)]
    last = at == width - 1
    holder = np.arange(value.size).reshape(value.shape) % width == at
    match op:
        case "sum" | "avg":
            total = value * width if op == "avg" else value
            return total - sum(noise) if last else noise[at]
        case "max" | "min":
            if value.dtype.kind == "u":  # which has nothing below zero
                return np.where(holder, value, value // 2 if op == "max" else ~(~value // 2))
            far = 1 + _noise(value, axis, at)
            return np.where(holder, value, value - far if op == "max" else value + far)
        case "prod":
            signs = [2 * (abs(each) % 2) - 1 for each in noise]
            return value * np.prod(signs, axis=0) if last and signs else value if last else signs[at]
        case "bxor":
            return np.bitwise_xor.reduce([value, *noise]) if last else noise[at]
        case "bor":
            return value if last else value & noise[at]
        case _:
            return value if last else value | noise[at]


def _noise(value: Array, axis: int, rank: int) -> Array:
    """Return small whole numbers, of which sums are exact."""
    drawn = np.random.default_rng((axis, rank)).integers(0, 4, value.shape)
    return np.asarray(drawn % 2 if value.dtype.kind == "b" else drawn).astype(value.dtype)
