"""Distances between the rows of matrices."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.ops import arithmetic, statistics
from shardwise.tensor.tensor import Tensor

__all__ = ["cdist"]

T = TypeVar("T", bound=Tensor | Array)


def cdist(x1: T, x2: T, p: float = 2.0, compute_mode: str | None = None) -> T:
    """Return the distance of every row of one matrix from every row of another.

    Parameters
    ----------
    x1 : Tensor, shape (..., m, d)
    x2 : Tensor, shape (..., n, d)
        Leading dims broadcast.
    p : float
        Of the p-norm: 0 counts the differing elements, inf takes the largest difference.
    compute_mode : str, optional
        PyTorch's, without effect: differences are never computed through a matrix product.

    Returns
    -------
    Tensor, shape (..., m, n)
        The gradient at a distance of 0 is 0.

    Raises
    ------
    ArgumentError
        A negative `p`.
    ShapeError
        An operand has fewer than two dims, or the last ones differ.
    """
    first, second = np.shape(x1), np.shape(x2)
    if not p >= 0:
        raise ArgumentError(f"cdist: p must be at least 0, got {p}")
    if min(len(first), len(second)) < 2 or first[-1] != second[-1]:
        raise ShapeError(f"cdist: wanted shapes (..., m, d) and (..., n, d), got {first} and {second}")
    rows: Any = np.expand_dims(x1, -2)
    columns: Any = np.expand_dims(x2, -3)
    distances: T = statistics.Norm.apply(arithmetic.Sub.apply(rows, columns), p=float(p), dim=-1)
    return distances
