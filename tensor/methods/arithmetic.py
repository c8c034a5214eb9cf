"""Operators: arithmetic, comparisons, bits and logic."""

from __future__ import annotations

from typing import Any, Self

from shardwise.tensor.function import Function
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import arithmetic, bitwise, comparison, matmul, part, power

__all__ = ["Arithmetic"]


class Arithmetic(Carrier):
    """``+``, ``<``, ``&`` and the like.

    Dtypes follow NumPy 2, where Python's numbers are weak: ``float32 + 1.0`` is float32. Division of
    integers gives float64.
    """

    __hash__ = object.__hash__

    # ---- arithmetic

    def _behind(self, function: type[Function], other: Operand) -> Self:
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
        return self._behind(arithmetic.Sub, other)

    def __mul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __rmul__(self, other: Operand) -> Self:
        return arithmetic.Mul.apply(self, other)

    def __truediv__(self, other: Operand) -> Self:
        return arithmetic.Div.apply(self, other)

    def __rtruediv__(self, other: Operand) -> Self:
        return self._behind(arithmetic.Div, other)

    def __floordiv__(self, other: Operand) -> Self:
        return arithmetic.FloorDiv.apply(self, other)

    def __rfloordiv__(self, other: Operand) -> Self:
        return self._behind(arithmetic.FloorDiv, other)

    def __mod__(self, other: Operand) -> Self:
        return arithmetic.Remainder.apply(self, other)

    def __rmod__(self, other: Operand) -> Self:
        return self._behind(arithmetic.Remainder, other)

    def __divmod__(self, other: Operand) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Self, Self]:
        return self._behind(arithmetic.FloorDiv, other), self._behind(arithmetic.Remainder, other)

    def __pow__(self, other: Operand) -> Self:
        return power.Pow.apply(self, other)

    def __rpow__(self, other: Operand) -> Self:
        return self._behind(power.Pow, other)

    def __matmul__(self, other: Operand) -> Self:
        return matmul.MatMul.apply(self, other)

    def __rmatmul__(self, other: Operand) -> Self:
        return self._behind(matmul.MatMul, other)

    def __neg__(self) -> Self:
        return arithmetic.Neg.apply(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return part.Abs.apply(self)

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

    # ---- bits of integers, logic of booleans

    def __invert__(self) -> Self:
        return bitwise.BitwiseNot.apply(self)

    def __and__(self, other: Operand) -> Self:
        return bitwise.BitwiseAnd.apply(self, other)

    def __rand__(self, other: Operand) -> Self:
        return self._behind(bitwise.BitwiseAnd, other)

    def __or__(self, other: Operand) -> Self:
        return bitwise.BitwiseOr.apply(self, other)

    def __ror__(self, other: Operand) -> Self:
        return self._behind(bitwise.BitwiseOr, other)

    def __xor__(self, other: Operand) -> Self:
        return bitwise.BitwiseXor.apply(self, other)

    def __rxor__(self, other: Operand) -> Self:
        return self._behind(bitwise.BitwiseXor, other)

    def __lshift__(self, other: Operand) -> Self:
        return bitwise.LeftShift.apply(self, other)

    def __rlshift__(self, other: Operand) -> Self:
        return self._behind(bitwise.LeftShift, other)

    def __rshift__(self, other: Operand) -> Self:
        return bitwise.RightShift.apply(self, other)

    def __rrshift__(self, other: Operand) -> Self:
        return self._behind(bitwise.RightShift, other)
