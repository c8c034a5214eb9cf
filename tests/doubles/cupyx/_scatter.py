"""Sums and extremes of many values for one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from cupy._array import ndarray
from cupy._launch import effect

__all__ = ["scatter_add", "scatter_max", "scatter_min"]


def _scatter(ufunc: np.ufunc, a: Any, slices: Any, value: Any) -> None:
    keys = slices if isinstance(slices, tuple) else (slices,)
    inside = tuple(each.memory if isinstance(each, ndarray) else each for each in keys)
    target, given = a.memory, value.memory if isinstance(value, ndarray) else value
    arrays = [each for each in (a, *keys, value) if isinstance(each, ndarray)]
    effect(arrays, lambda: ufunc.at(target, inside, given))


def scatter_add(a: Any, slices: Any, value: Any) -> None:
    _scatter(np.add, a, slices, value)


def scatter_max(a: Any, slices: Any, value: Any) -> None:
    _scatter(np.maximum, a, slices, value)


def scatter_min(a: Any, slices: Any, value: Any) -> None:
    _scatter(np.minimum, a, slices, value)
