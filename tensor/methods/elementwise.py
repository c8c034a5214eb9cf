"""Functions of each element."""

from __future__ import annotations

from typing import Any, Self

from shardwise.tensor.dim import counted_dim
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.rearrangement import Rearrangement
from shardwise.tensor.ops import (
    activation,
    arithmetic,
    choice,
    circular,
    comparison,
    elementary,
    hyperbolic,
    power,
    rounding,
    special_function,
)

__all__ = ["Elementwise"]


class Elementwise(Rearrangement):
    """What is computed element by element, and the softmax."""

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return elementary.Exp.apply(self)

    def log(self) -> Self:
        """Return the natural logarithm of each element."""
        return elementary.Log.apply(self)

    def sqrt(self) -> Self:
        """Return the square root of each element."""
        return power.Sqrt.apply(self)

    def sin(self) -> Self:
        """Return the sine of each element, in radians."""
        return circular.Sin.apply(self)

    def cos(self) -> Self:
        """Return the cosine of each element, in radians."""
        return circular.Cos.apply(self)

    def sinh(self) -> Self:
        """Return the hyperbolic sine of each element."""
        return hyperbolic.Sinh.apply(self)

    def cosh(self) -> Self:
        """Return the hyperbolic cosine of each element."""
        return hyperbolic.Cosh.apply(self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangent of each element."""
        return hyperbolic.Tanh.apply(self)

    def sigmoid(self) -> Self:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return elementary.Sigmoid.apply(self)

    def erf(self) -> Self:
        """Return the error function of each element."""
        return special_function.Erf.apply(self)

    def relu(self) -> Self:
        """Return the positive part of each element."""
        return elementary.Relu.apply(self)

    def sign(self) -> Self:
        """Return -1, 0 or 1 by the sign of each element."""
        return rounding.Sign.apply(self)

    def square(self) -> Self:
        """Return each element times itself."""
        return power.Square.apply(self)

    def isnan(self) -> Self:
        """Return where elements are NaN."""
        return comparison.IsNaN.apply(self)

    def isfinite(self) -> Self:
        """Return where elements are neither NaN nor infinite."""
        return comparison.IsFinite.apply(self)

    def maximum(self, other: Operand) -> Self:
        """Return the larger of two, element by element; ties share the gradient."""
        return choice.Maximum.apply(self, other)

    def minimum(self, other: Operand) -> Self:
        """Return the smaller of two, element by element; ties share the gradient."""
        return choice.Minimum.apply(self, other)

    def clip(self, min: complex | None = None, max: complex | None = None) -> Self:
        """Return values kept between two numbers, either of which may be None."""
        return choice.Clip.apply(self, min, max)

    clamp = clip

    def masked_fill(self, mask: Operand, value: Operand) -> Self:
        """Return a copy with `value` where `mask` is true."""
        condition: Any = mask
        result: Self = arithmetic.Where.apply(condition, value, self)
        return result

    def softmax(self, dim: int = -1) -> Self:
        """Return exponentials that sum to one along `dim`."""
        return self._along(activation.Softmax, dim)

    def log_softmax(self, dim: int = -1) -> Self:
        """Return the logarithm of `softmax`, without its underflow."""
        return self._along(activation.LogSoftmax, dim)

    def _along(self, function: Any, dim: int) -> Self:
        dim, last = counted_dim(function.__name__, dim, self.data.ndim), self.data.ndim - 1
        if last < 0:
            alone: Self = function.apply(self.reshape(1))
            return alone.reshape(())
        if dim == last:
            result: Self = function.apply(self)
            return result
        moved: Self = function.apply(self.transpose(dim, last))
        return moved.transpose(dim, last)
