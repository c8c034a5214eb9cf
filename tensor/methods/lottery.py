"""Indices drawn by weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import random as bits
from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.fresh import unset
from shardwise.tensor.random import next_draw

__all__ = ["draw_by_weight"]


def draw_by_weight(input: Any, num_samples: int, replacement: bool) -> Any:
    """Return indices drawn with probabilities in proportion to weights; see ``sw.multinomial``."""
    if input.ndim not in (1, 2):
        raise ShapeError(f"multinomial: wanted weights of shape (n,) or (rows, n), got {input.shape}")
    shape = (*input.shape[:-1], num_samples)
    drawn = (*input.shape[:-1], num_samples if replacement else input.shape[-1])
    draw = next_draw()
    if input.device == "shape":
        return input.wrap(unset(shape, np.int64, "shape"))
    weights = backend_of(input.data).to_host(input.data).astype(np.float64)
    if (
        num_samples < 1
        or not np.all((weights >= 0) & np.isfinite(weights))
        or not np.all(weights.sum(-1) > 0)
    ):
        raise ArgumentError(
            "multinomial: wanted weights of 0 or more, finite and not all zero, and at least one sample; "
            f"got {num_samples} samples of weights from {weights.min(initial=0)} to {weights.max(initial=0)}"
        )
    if not replacement and num_samples > int((weights > 0).sum(-1).min()):
        raise ArgumentError(
            f"multinomial: cannot draw {num_samples} samples without replacement from "
            f"{int((weights > 0).sum(-1).min())} weights above zero; pass replacement=True"
        )
    uniform = bits.uniform(drawn, np.float64, draw.seed, draw.stream, draw.offset(drawn))
    indices = (
        _with_replacement(weights, uniform) if replacement else _by_race(weights, uniform)[..., :num_samples]
    )
    return input.new_tensor(np.ascontiguousarray(indices).astype(np.int64), dtype=np.int64)


def _with_replacement(weights: Array, uniform: Array) -> Array:
    """Invert the distribution function, row by row; weights of zero are never met."""
    steps = np.cumsum(weights, -1)
    steps = steps / steps[..., -1:]
    if weights.ndim == 1:
        return np.searchsorted(steps, uniform, side="right")
    rows = [np.searchsorted(s, u, side="right") for s, u in zip(steps, uniform, strict=True)]
    return np.stack(rows) if rows else np.zeros(uniform.shape, np.int64)


def _by_race(weights: Array, uniform: Array) -> Array:
    """Order indices by exponential arrival times, whose rates are the weights: the first is as if drawn."""
    rate = np.where(weights > 0, weights, 1.0)
    times = np.where(weights > 0, -np.log1p(-uniform) / rate, np.inf)
    return np.argsort(times, axis=-1, kind="stable")
