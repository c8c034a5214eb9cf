"""Operators and their named twins: arithmetic, comparisons, logic."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from shardwise.backend.errors import DTypeError
from shardwise.tensor.function import Function
from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import arithmetic, comparison, matmul, part, power

__all__ = ["Arithmetic"]


class Arithmetic(Carrier):
    """``+``, ``<``, ``&`` and the like."""

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
        return power.Pow.apply(self, other)

    def __rpow__(self, other: Operand) -> Self:
        return self._swapped(power.Pow, other)

    def __matmul__(self, other: Operand) -> Self:
        return matmul.MatMul.apply(self, other)

    def __rmatmul__(self, other: Operand) -> Self:
        return self._swapped(matmul.MatMul, other)

    def __neg__(self) -> Self:
        return arithmetic.Neg.apply(self)

    def __abs__(self) -> Self:
        return part.Abs.apply(self)

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


def _booleans(op: str, *operands: Operand) -> None:
    """Refuse integers, whose bits NumPy and PyTorch would combine, and numbers."""
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype != np.bool_ and not isinstance(operand, bool):
            raise DTypeError(
                f"{op} combines booleans, not {type(operand).__name__ if dtype is None else dtype}; "
                "compare first, as in x != 0"
            )
