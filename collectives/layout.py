"""Shapes of collectives, and the moves between a dim of an array and the ranks' axis in front.

Transports know one layout only: what belongs to rank ``i`` of the group is row ``i`` of a contiguous
buffer of shape (n, ...). These functions go from ``dim`` to there and back; for dim 0 they are views.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array

__all__ = ["concatenated", "divided", "join", "split", "unchanged"]

Shape = tuple[int, ...]


def unchanged(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape itself."""
    return shape


def concatenated(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape of n such arrays concatenated along `dim`."""
    return (*shape[:dim], shape[dim] * n, *shape[dim + 1 :])


def divided(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape of one of n equal parts along `dim`, which n divides."""
    return (*shape[:dim], shape[dim] // n, *shape[dim + 1 :])


def split(x: Array, n: int, dim: int) -> Array:
    """Give the n equal parts of `x` along `dim` as the rows of a contiguous array.

    Parameters
    ----------
    x : array, shape (..., n * part, ...)
    n : int
        Number of parts; it divides the extent of `dim`.
    dim : int
        Non-negative.

    Returns
    -------
    array, shape (n, ..., part, ...), C-contiguous; a view of `x` where that is possible
    """
    part = x.shape[dim] // n
    rows = x.reshape(*x.shape[:dim], n, part, *x.shape[dim + 1 :])
    return np.ascontiguousarray(np.moveaxis(rows, dim, 0))


def join(rows: Array, dim: int) -> Array:
    """Concatenate the rows of `rows` along `dim`, the inverse of `split`.

    Parameters
    ----------
    rows : array, shape (n, ..., part, ...)
    dim : int
        Non-negative; counted in one row.

    Returns
    -------
    array, shape (..., n * part, ...); a view of `rows` where that is possible
    """
    shape = concatenated(rows.shape[1:], rows.shape[0], dim)
    return np.moveaxis(rows, 0, dim).reshape(shape)
