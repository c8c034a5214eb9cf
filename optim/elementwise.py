"""From parameters to one call of a kernel: what the optimizers with an elementwise formula share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.optimizer.optimizer import Update
from shardwise.tensor import Tensor

__all__ = ["count_steps", "numbers_of", "parts_of", "update_all"]

K = TypeVar("K")
Numbers = tuple[float, ...]


def count_steps(states: Sequence[dict[str, Any]]) -> list[int]:
    """Count a step in each state, and return the numbers of the steps, from 1."""
    for state in states:
        state["step"] = state.get("step", 0) + 1
    return [state["step"] for state in states]


def numbers_of(keys: Sequence[K], at: Callable[[K], Numbers]) -> list[Numbers]:
    """Return what `at` gives for each key, a step mostly; asked once for those that are equal."""
    known = {key: at(key) for key in set(keys)}
    return [known[key] for key in keys]


def parts_of(arrays: Sequence[Any]) -> list[Array]:
    """Return the part of each array that this rank holds: all of it, but of sharded ones."""
    return [getattr(array, "local", array) for array in arrays]


def update_all(
    update: Update,
    params: Sequence[Tensor],
    states: Sequence[dict[str, Any]],
    moments: Sequence[str],
    numbers: Sequence[Numbers],
    start: complex = 0.0,
    more: Sequence[Sequence[Array]] = (),
) -> None:
    """Apply a formula to parameters that have a gradient, with the arrays of their states.

    Parameters
    ----------
    update : Update
    params : sequence of Tensor
    states : sequence of dict
        One per parameter.
    moments : sequence of str
        Which arrays of the states the formula takes; those that are not there yet are made.
    numbers : sequence of tuple of float
        The formula's numbers, one tuple per parameter.
    start : float or complex
        The elements of new arrays.
    more : sequence of sequences of Array
        What else the formula writes, which is not kept.

    Notes
    -----
    Of sharded parameters each rank updates its part; their state lies as they do.
    """
    arrays = [param.data for param in params]
    columns: list[list[Any]] = [arrays, [param.grad.data for param in params if param.grad is not None]]
    for key in moments:
        column = [state.get(key) for state in states]
        if any(array is None for array in column):
            for i, array in enumerate(column):
                if array is None:
                    column[i] = states[i][key] = _new(arrays[i], start)
        columns.append(column)
    update([parts_of(column) for column in (*columns, *more)], numbers)


def _new(like: Array, start: complex) -> Array:
    if not start:
        return np.zeros_like(like)
    return np.full_like(like, start if like.dtype.kind == "c" else start.real)
