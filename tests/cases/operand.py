"""What the cases are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from shardwise.tensor import Tensor

__all__ = ["INDEX", "MASK", "TARGET", "Case", "make"]

Case = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of tensors, and the float64 tensors to call it with."""


def make(*shape: int, seed: int = 0, low: float | None = None) -> Tensor:
    """A float64 tensor that requires grad: normal, or uniform in [low, low + 1)."""
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    values = rng.standard_normal(shape) if low is None else low + rng.random(shape)
    return sw.tensor(values, requires_grad=True)


INDEX = np.array([[2, 0, 2], [1, 1, 0]])
MASK = np.tri(3, 5, 1, dtype=bool)
TARGET = np.array([1, -100, 3, 0])
