"""Grids of ranks as plain arrays: keeping, merging and dividing their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["RankGrid", "divide_axis", "keep_axes", "merge_axes"]

RankGrid = np.ndarray[Any, np.dtype[np.int64]]
"""Distinct global ranks, int64, in the shape of a mesh."""


def keep_axes(ranks: RankGrid, axes: Sequence[int], coordinate: Sequence[int]) -> RankGrid:
    """Keep these axes, in this order, and fix the others at a coordinate.

    Examples
    --------
    >>> keep_axes(np.arange(8).reshape(2, 2, 2), (2, 0), (0, 1, 0)).tolist()
    [[2, 6], [3, 7]]
    """
    part = ranks[tuple(slice(None) if axis in axes else at for axis, at in enumerate(coordinate))]
    rising = sorted(axes)
    return part.transpose([rising.index(axis) for axis in axes])


def merge_axes(ranks: RankGrid, axes: Sequence[int]) -> RankGrid:
    """Make one axis of these, the last of them running fastest; it stands where the outermost stood.

    Examples
    --------
    >>> merge_axes(np.arange(8).reshape(2, 2, 2), (2, 0)).tolist()
    [[0, 2], [4, 6], [1, 3], [5, 7]]
    """
    others = [axis for axis in range(ranks.ndim) if axis not in axes]
    before = [axis for axis in others if axis < min(axes)]
    after = others[len(before) :]
    moved = ranks.transpose([*before, *axes, *after])
    shape = moved.shape
    return moved.reshape(*shape[: len(before)], -1, *shape[len(before) + len(axes) :])


def divide_axis(ranks: RankGrid, axis: int, sizes: Sequence[int]) -> RankGrid:
    """Make several axes of one, the last of them running fastest; the sizes multiply to its own.

    Examples
    --------
    >>> divide_axis(np.arange(6).reshape(6, 1), 0, (2, 3)).shape
    (2, 3, 1)
    """
    return ranks.reshape(*ranks.shape[:axis], *sizes, *ranks.shape[axis + 1 :])
