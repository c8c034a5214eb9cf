"""Where the elements of a part lie in the global array that random bits are numbered by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from shardwise.backend.array import Array, Shape

__all__ = ["Grid", "Place", "Positions", "grid_of", "located", "placed", "steps_of"]


class Positions(NamedTuple):
    """Flat global indices of a part's elements: that of element ``i`` is ``first + sum(i * strides)``.

    Attributes
    ----------
    first : int
        Of the part's first element.
    strides : tuple of int
        Per dim, how many places of the whole its next element is further.
    """

    first: int
    strides: Shape


Place: TypeAlias = int | Positions
"""The first flat index of a part that is consecutive elements of the whole; or `Positions` of any box."""


class Grid(NamedTuple):
    """Positions of `shape`, in as few dims as can be; the elements of the last dim lie side by side.

    Numbers multiply it as they do an index, so that what takes two words an element can say so.
    """

    first: int
    shape: Shape
    strides: Shape

    @property
    def length(self) -> int:
        """Number of elements of a run."""
        return self.shape[-1]

    def starts(self) -> Array:
        """Return the position of each run's first element, as a NumPy array."""
        found = np.full(1, self.first, np.int64)
        for n, stride in zip(self.shape[:-1], self.strides[:-1], strict=True):
            found = np.add.outer(found, np.arange(0, n * stride, stride, dtype=np.int64)[:n])
        return found.reshape(-1)

    def positions(self, like: Array) -> Array:
        """Return the position of each element, flat, in uint64, beside `like`."""
        found = np.arange(self.first, self.first + 1, dtype=np.uint64, like=like)
        for n, stride in zip(self.shape, self.strides, strict=True):
            steps = np.arange(0, n, dtype=np.uint64, like=like) * stride
            found = np.reshape(np.reshape(found, (-1, 1)) + np.reshape(steps, (1, -1)), (-1,))
        return found

    def of_pairs(self) -> Grid:
        """Return the grid of words, of which each element takes two."""
        return Grid(
            2 * self.first, (*self.shape[:-1], 2 * self.length), (*[2 * n for n in self.strides[:-1]], 1)
        )


def steps_of(shape: Sequence[int]) -> Shape:
    """Return the strides of a C-contiguous array, in elements.

    Examples
    --------
    >>> steps_of((2, 3, 4))
    (12, 4, 1)
    """
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def located(place: Place, offset: Sequence[int], whole: Sequence[int]) -> Positions:
    """Return where a box lies that starts at `offset` in an array of shape `whole`, itself at `place`.

    Examples
    --------
    >>> located(100, (1, 2), (4, 8))
    Positions(first=110, strides=(8, 1))
    """
    first, strides = (
        (place.first, place.strides) if isinstance(place, Positions) else (place, steps_of(whole))
    )
    return Positions(first + sum(at * step for at, step in zip(offset, strides, strict=True)), strides)


def grid_of(place: Place, shape: Shape) -> int | Grid:
    """Return the position of the first element where all of `shape` follow it; else a grid.

    Examples
    --------
    >>> grid_of(Positions(6, (3, 1)), (2, 3)), grid_of(Positions(6, (3, 1)), (2, 2))
    (6, Grid(first=6, shape=(2, 2), strides=(3, 1)))
    """
    if not isinstance(place, Positions):
        return place
    sizes: list[int] = [1]
    strides: list[int] = [1]
    for n, stride in zip(reversed(shape), reversed(place.strides), strict=True):
        if n == 1:
            continue
        if stride == strides[-1] * sizes[-1]:
            sizes[-1] *= n
        else:
            sizes.append(n)
            strides.append(stride)
    if len(sizes) == 1 or not math.prod(shape):
        return place.first
    return Grid(place.first, tuple(reversed(sizes)), tuple(reversed(strides)))


def placed(place: Place, offset: Shape, shape: Shape, whole: Shape) -> Place:
    """Return where a box lies, as one number if its elements are consecutive; see `located`.

    Examples
    --------
    >>> placed(100, (1, 0), (2, 8), (4, 8)), placed(100, (1, 2), (2, 3), (4, 8))
    (108, Positions(first=110, strides=(8, 1)))
    """
    positions = located(place, offset, whole)
    run = grid_of(positions, shape)
    return run if isinstance(run, int) else positions
