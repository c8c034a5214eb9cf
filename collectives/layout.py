"""Shapes of collectives, and the moves between a dim of an array and the ranks' axis in front.

Transports know one layout only: what belongs to rank ``i`` of the group is row ``i`` of a contiguous
buffer of shape (n, ...). These functions go from ``dim`` to there and back; for dim 0 they are views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from shardwise.backend.array import Array

__all__ = [
    "Stretch",
    "concatenated",
    "divided",
    "elements",
    "join",
    "pack",
    "split",
    "stretches",
    "unchanged",
    "unpack",
]

Shape = tuple[int, ...]

Stretch = tuple[int, int]
"""Begin and end within a flat array, counted in elements."""


def unchanged(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape itself."""
    return shape


def concatenated(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape of n such arrays concatenated along `dim`."""
    if dim == 0:
        return (shape[0] * n, *shape[1:])
    return (*shape[:dim], shape[dim] * n, *shape[dim + 1 :])


def divided(shape: Shape, n: int, dim: int) -> Shape:
    """Give the shape of one of n equal parts along `dim`, which n divides."""
    return (*shape[:dim], shape[dim] // n, *shape[dim + 1 :])


def resized(shape: Shape, dim: int, extent: int) -> Shape:
    """Give the shape with another extent along `dim`."""
    return (*shape[:dim], extent, *shape[dim + 1 :])


def stretches(counts: Iterable[int]) -> list[Stretch]:
    """Give the stretches of a flat array that holds so many elements for each rank, one after the other."""
    return list(pairwise(accumulate(counts, initial=0)))


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
    if dim == 0 and rows.flags.c_contiguous:
        return rows
    moved = np.moveaxis(rows, dim, 0)
    return moved if moved.flags.c_contiguous else moved.copy(order="C")


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
    return rows.reshape(shape) if dim == 0 else np.moveaxis(rows, 0, dim).reshape(shape)


def pack(x: Array, sizes: Sequence[int], dim: int) -> Array:
    """Lay the parts of `x` along `dim`, so long each, one after the other.

    Parameters
    ----------
    x : array, C-contiguous
    sizes : sequence of int
        They add up to the extent of `dim`.
    dim : int
        Non-negative.

    Returns
    -------
    array, flat, contiguous; a view of `x` for dim 0
    """
    if dim == 0:
        return x.reshape(-1)
    before = (slice(None),) * dim
    return np.concatenate([x[(*before, slice(*part))].reshape(-1) for part in stretches(sizes)])


def unpack(flat: Array, sizes: Sequence[int], shape: Shape, dim: int) -> Array:
    """Concatenate the parts that lie in `flat` one after the other along `dim`, the inverse of `pack`.

    Parameters
    ----------
    flat : array, flat, contiguous
    sizes : sequence of int
        Extents of the parts along `dim`.
    shape : tuple of int
        Of the result.
    dim : int
        Non-negative.

    Returns
    -------
    array, of shape `shape`; a view of `flat` for dim 0
    """
    if dim == 0:
        return flat.reshape(shape)
    others = elements(shape, dim)
    parts = zip(sizes, stretches([size * others for size in sizes]), strict=True)
    return np.concatenate(
        [flat[slice(*part)].reshape(*shape[:dim], size, *shape[dim + 1 :]) for size, part in parts], dim
    )


def elements(shape: Shape, dim: int) -> int:
    """Give the number of elements of an array of that shape whose extent along `dim` is 1."""
    return math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])
