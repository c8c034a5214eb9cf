"""Steps of a sequence, one after the other, in formulas of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array

__all__ = ["packed", "previous", "seen_rows", "stacked", "step_order", "where_seen"]

_LINE = 64  # bytes


def packed(weight: Array, steps: int, rows: int) -> Array:
    """Return a transposed weight as it multiplies fastest at every step.

    Products of a few rows with a matrix are faster where its rows are contiguous, those of one row are not;
    making them so costs as much as a few products. Between them is a cache line: rows that lie a power of two
    apart displace each other, and products took a third more.
    """
    if steps <= 8 or rows <= 1:
        return weight
    height, width = weight.shape
    apart = np.empty((height, width + _LINE // weight.itemsize), weight.dtype)[:, :width]
    apart[...] = weight
    return apart


def step_order(steps: int, reverse: bool) -> range:
    """Return the steps in the order in which they are taken."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


def stacked(parts: dict[int, Any]) -> Any:
    """Return what was computed at each step as one array, in the order of the sequence."""
    return np.stack([parts[t] for t in range(len(parts))], axis=0)


def previous(states: Any, first: Any, reverse: bool) -> Any:
    """Return the states that each step started from."""
    first = np.expand_dims(first, 0)
    parts = [states[1:], first] if reverse else [first, states[:-1]]
    return np.concatenate(parts, axis=0)


def where_seen(seen: Any, t: int, new: Any, old: Any) -> Any:
    """Return what a step changes where the sequence has it, and what was before elsewhere."""
    return new if seen is None else np.where(seen[t], new, old)


def seen_rows(seen: Array | None, steps: int, rows: int) -> Array:
    """Return by step and row, as compiled code reads it, whether the sequence has the step."""
    if seen is None:
        return np.ones((steps, rows), np.bool_)
    return np.ascontiguousarray(np.broadcast_to(seen, (steps, rows, 1)), np.bool_).reshape(steps, rows)
