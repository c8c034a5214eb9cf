"""Results of several tensors, by name."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

__all__ = ["Extremes", "Histogram", "ValuesIndices"]

T = TypeVar("T")


class ValuesIndices(NamedTuple, Generic[T]):
    """Values that were chosen along a dim, and the int64 indices where they were."""

    values: T
    indices: T


class Extremes(NamedTuple, Generic[T]):
    """The smallest and the largest values."""

    min: T
    max: T


class Histogram(NamedTuple, Generic[T]):
    """What fell into each bin, and the edges of the bins, one more than there are bins."""

    hist: T
    bin_edges: T
