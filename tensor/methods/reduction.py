"""Reductions over dims, which are given as in PyTorch (``dim``, ``keepdim``)."""

from __future__ import annotations

from typing import Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.tensor.methods.arithmetic import Arithmetic
from shardwise.tensor.ops import extreme, reduce

__all__ = ["Reduction"]


class Reduction(Arithmetic):
    """Sums, means, extremes."""

    def sum(self, dim: reduce.Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the sum over `dim` (an int, a tuple, or all dims)."""
        return reduce.Sum.apply(self, dim=dim, keepdim=keepdim, dtype=dtype)

    def mean(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the mean over `dim` (an int, a tuple, or all dims)."""
        return reduce.Mean.apply(self, dim=dim, keepdim=keepdim)

    def var(self, dim: reduce.Dims = None, correction: int = 1, keepdim: bool = False) -> Self:
        """Return the variance over `dim`, divided by the count less `correction`."""
        centred = self - self.mean(dim, keepdim=True)
        freedom = reduce.reduced_count(self.data.shape, dim) - correction
        return (centred * centred).sum(dim, keepdim=keepdim) * (1.0 / freedom if freedom > 0 else np.nan)

    def amax(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the largest value over `dim`; ties share the gradient evenly."""
        return extreme.Amax.apply(self, dim=dim, keepdim=keepdim)

    def amin(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the smallest value over `dim`; ties share the gradient evenly."""
        return extreme.Amin.apply(self, dim=dim, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first largest value along `dim`."""
        return extreme.Argmax.apply(self, dim=dim, keepdim=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first smallest value along `dim`."""
        return extreme.Argmin.apply(self, dim=dim, keepdim=keepdim)
