"""The operators and the arithmetic methods of a tensor, each a call of one `Function`.

`Tensor` inherits them. Dims are given as in PyTorch (``dim``, ``keepdim``).
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.errors import DTypeError
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Function
from shardwise.tensor.ops import activation, arithmetic, comparison, elementary, matmul, reduce
from shardwise.tensor.rearrangement import Rearrangement

__all__ = ["Operand", "Operators"]

Operand: TypeAlias = "Operators | Array | np.generic | complex"  # complex takes in int, float and bool


class Operators(Rearrangement):
    """What can be computed with tensors, apart from autograd."""

    __hash__ = object.__hash__

    # ---- arithmetic

    def _swapped(self, function: type[Function], other: Operand) -> Self:
        """Apply an op whose first operand is not a tensor."""
        first: Any = other
        result: Self = function.apply(first, self)
        return result

    def __add__(self, other: Operand) -> Self:
        return arithmetic.Add.apply(self, other)

    def __radd__(self, other: Operand) -> Self:
        return arithmetic.Add.apply(self, other)

    def __sub__(self, other: Operand) -> Self:
        return arithmetic.Sub.apply(self, other)

    def __rsub__(self, other: Operand) -> Self:
        return self._swapped(arithmetic.Sub, other)

    def __mul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __rmul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __truediv__(self, other: Operand) -> Self:
        return arithmetic.Div.apply(self, other)

    def __rtruediv__(self, other: Operand) -> Self:
        return self._swapped(arithmetic.Div, other)

    def __floordiv__(self, other: Operand) -> Self:
        return arithmetic.FloorDiv.apply(self, other)

    def __rfloordiv__(self, other: Operand) -> Self:
        return self._swapped(arithmetic.FloorDiv, other)

    def __mod__(self, other: Operand) -> Self:
        return arithmetic.Remainder.apply(self, other)

    def __rmod__(self, other: Operand) -> Self:
        return self._swapped(arithmetic.Remainder, other)

    def __pow__(self, other: Operand) -> Self:
        return arithmetic.Pow.apply(self, other)

    def __rpow__(self, other: Operand) -> Self:
        return self._swapped(arithmetic.Pow, other)

    def __matmul__(self, other: Operand) -> Self:
        return matmul.MatMul.apply(self, other)

    def __rmatmul__(self, other: Operand) -> Self:
        return self._swapped(matmul.MatMul, other)

    def __neg__(self) -> Self:
        return arithmetic.Neg.apply(self)

    def __abs__(self) -> Self:
        return elementary.Abs.apply(self)

    add, sub, mul, div, pow = __add__, __sub__, __mul__, __truediv__, __pow__
    matmul, neg, abs, remainder = __matmul__, __neg__, __abs__, __mod__

    # ---- comparisons; == compares elements, identity hashes

    def __eq__(self, other: Operand) -> Self:  # type: ignore[override]
        return comparison.Equal.apply(self, other)

    def __ne__(self, other: Operand) -> Self:  # type: ignore[override]
        return comparison.NotEqual.apply(self, other)

    def __lt__(self, other: Operand) -> Self:
        return comparison.Less.apply(self, other)

    def __le__(self, other: Operand) -> Self:
        return comparison.LessEqual.apply(self, other)

    def __gt__(self, other: Operand) -> Self:
        return comparison.Greater.apply(self, other)

    def __ge__(self, other: Operand) -> Self:
        return comparison.GreaterEqual.apply(self, other)

    def __invert__(self) -> Self:
        _booleans("~", self)
        return comparison.LogicalNot.apply(self)

    def __and__(self, other: Operand) -> Self:
        _booleans("&", self, other)
        return comparison.LogicalAnd.apply(self, other)

    def __or__(self, other: Operand) -> Self:
        _booleans("|", self, other)
        return comparison.LogicalOr.apply(self, other)

    eq, ne, lt, le, gt, ge = __eq__, __ne__, __lt__, __le__, __gt__, __ge__

    # ---- elementwise mathematics

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return elementary.Exp.apply(self)

    def log(self) -> Self:
        """Return the natural logarithm of each element."""
        return elementary.Log.apply(self)

    def sqrt(self) -> Self:
        """Return the square root of each element."""
        return elementary.Sqrt.apply(self)

    def sin(self) -> Self:
        """Return the sine of each element, in radians."""
        return elementary.Sin.apply(self)

    def cos(self) -> Self:
        """Return the cosine of each element, in radians."""
        return elementary.Cos.apply(self)

    def sinh(self) -> Self:
        """Return the hyperbolic sine of each element."""
        return elementary.Sinh.apply(self)

    def cosh(self) -> Self:
        """Return the hyperbolic cosine of each element."""
        return elementary.Cosh.apply(self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangent of each element."""
        return elementary.Tanh.apply(self)

    def sigmoid(self) -> Self:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return elementary.Sigmoid.apply(self)

    def erf(self) -> Self:
        """Return the error function of each element."""
        return elementary.Erf.apply(self)

    def relu(self) -> Self:
        """Return the positive part of each element."""
        return elementary.Relu.apply(self)

    def sign(self) -> Self:
        """Return -1, 0 or 1 by the sign of each element."""
        return elementary.Sign.apply(self)

    def square(self) -> Self:
        """Return each element times itself."""
        return arithmetic.Mul.apply(self, self)

    def isnan(self) -> Self:
        """Return where elements are NaN."""
        return comparison.IsNaN.apply(self)

    def isfinite(self) -> Self:
        """Return where elements are neither NaN nor infinite."""
        return comparison.IsFinite.apply(self)

    def maximum(self, other: Operand) -> Self:
        """Return the larger of two, element by element; ties share the gradient."""
        return arithmetic.Maximum.apply(self, other)

    def minimum(self, other: Operand) -> Self:
        """Return the smaller of two, element by element; ties share the gradient."""
        return arithmetic.Minimum.apply(self, other)

    def clip(self, min: complex | None = None, max: complex | None = None) -> Self:
        """Return values kept between two numbers, either of which may be None."""
        return arithmetic.Clip.apply(self, low=min, high=max)

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

    # ---- dtypes

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the values in another dtype; self, if it has that dtype already."""
        dtype = np.dtype(dtype)
        return self if self.data.dtype == dtype else arithmetic.Cast.apply(self, dtype=dtype)

    def float(self) -> Self:
        """Return the values as float32."""
        return self.astype(np.float32)

    def double(self) -> Self:
        """Return the values as float64."""
        return self.astype(np.float64)

    def half(self) -> Self:
        """Return the values as float16."""
        return self.astype(np.float16)

    def long(self) -> Self:
        """Return the values as int64."""
        return self.astype(np.int64)

    def clone(self) -> Self:
        """Return a copy; gradients pass through."""
        return arithmetic.Clone.apply(self)

    def contiguous(self) -> Self:
        """Return a C-contiguous tensor: self, or a copy."""
        return self if self.data.flags.c_contiguous else self.clone()

    # ---- reductions

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
        return reduce.Amax.apply(self, dim=dim, keepdim=keepdim)

    def amin(self, dim: reduce.Dims = None, keepdim: bool = False) -> Self:
        """Return the smallest value over `dim`; ties share the gradient evenly."""
        return reduce.Amin.apply(self, dim=dim, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first largest value along `dim`."""
        return reduce.Argmax.apply(self, dim=dim, keepdim=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Return the int64 index of the first smallest value along `dim`."""
        return reduce.Argmin.apply(self, dim=dim, keepdim=keepdim)


def _booleans(op: str, *operands: Operand) -> None:
    """Refuse integers, whose bits NumPy and PyTorch would combine, and numbers."""
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype != np.bool_ and not isinstance(operand, bool):
            raise DTypeError(
                f"{op} combines booleans, not {type(operand).__name__ if dtype is None else dtype}; "
                "compare first, as in x != 0"
            )
