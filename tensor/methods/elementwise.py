"""Choices between values, and what is computed along one dim."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from shardwise.backend.array import DTypeLike
from shardwise.backend.errors import ArgumentError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.numpy_name import numpy_names
from shardwise.tensor.methods.rearrangement import Rearrangement
from shardwise.tensor.ops import activation, arithmetic, choice, elementary

__all__ = ["Elementwise"]


class Elementwise(Rearrangement):
    """The larger, the smaller, one or the other; the softmax."""

    def relu(self) -> Self:
        """Return the positive part of each element; the gradient is 0 at 0."""
        return elementary.Relu.apply(self)

    def maximum(self, other: Operand) -> Self:
        """Return the larger of two, element by element; ties share the gradient, NaN wins."""
        return choice.Maximum.apply(self, other)

    def minimum(self, other: Operand) -> Self:
        """Return the smaller of two, element by element; ties share the gradient, NaN wins."""
        return choice.Minimum.apply(self, other)

    def fmax(self, other: Operand) -> Self:
        """Return the larger of two, or the one that is not NaN; in ties the first gets the gradient."""
        return choice.Fmax.apply(self, other)

    def fmin(self, other: Operand) -> Self:
        """Return the smaller of two, or the one that is not NaN; in ties the first gets the gradient."""
        return choice.Fmin.apply(self, other)

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Return values kept between `min` and `max`, either of which may be None.

        Parameters
        ----------
        min, max : number or Tensor, optional
            Broadcast with self. Where `min` lies above `max` the result is `max`.

        Notes
        -----
        Values at a bound get the gradient; beyond it the bound gets it.
        """
        if min is None and max is None:
            raise ArgumentError("clamp: give min, or max, or both")
        return choice.Clip.apply(self, min, max)

    clip = clamp

    def clamp_min(self, min: Operand) -> Self:
        """Return values kept at or above `min`."""
        return choice.Clip.apply(self, min, None)

    def clamp_max(self, max: Operand) -> Self:
        """Return values kept at or below `max`."""
        return choice.Clip.apply(self, None, max)

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Return `nan` for NaN, and `posinf` and `neginf` for the infinities.

        The infinities become the largest and the smallest number of the dtype if nothing else is said.
        """
        return choice.NanToNum.apply(self, nan=nan, posinf=posinf, neginf=neginf)

    def where(self, condition: Operand, other: Operand) -> Self:
        """Return self where `condition` is true and `other` elsewhere."""
        test: Any = condition
        result: Self = arithmetic.Where.apply(test, self, other)
        return result

    def masked_fill(self, mask: Operand, value: Operand) -> Self:
        """Return a copy with `value` where `mask` is true; the dtype stays.

        Parameters
        ----------
        mask : Tensor of booleans
            Broadcast with self.
        value : number or Tensor

        Raises
        ------
        DTypeError
            `mask` is not of booleans, or `value` is of a wider kind than self: a complex number for
            floats, a float for integers.
        """
        result: Self = arithmetic.masked_fill(self, mask, value)
        return result

    @numpy_names
    def softmax(self, dim: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Return exponentials that sum to one along `dim`; cast to `dtype` first, if one is given."""
        return self._along(activation.Softmax, dim, dtype)

    @numpy_names
    def log_softmax(self, dim: int = -1, dtype: DTypeLike | None = None) -> Self:
        """Return the logarithm of `softmax`, without its underflow."""
        return self._along(activation.LogSoftmax, dim, dtype)

    def _along(self, function: Any, dim: int, dtype: DTypeLike | None) -> Self:
        if dtype is not None and self.data.dtype != np.dtype(dtype):
            cast: Self = arithmetic.Cast.apply(self, dtype=np.dtype(dtype))
            return cast._along(function, dim, None)
        dim, last = counted_dim(function.__name__, dim, self.data.ndim), self.data.ndim - 1
        if last < 0:
            alone: Self = function.apply(self.reshape(1))
            return alone.reshape(())
        if dim == last:
            result: Self = function.apply(self)
            return result
        moved: Self = function.apply(self.transpose(dim, last))
        return moved.transpose(dim, last)
