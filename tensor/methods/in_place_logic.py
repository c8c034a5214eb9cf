"""In-place forms of comparisons, logic and bits."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.ops import bitwise, comparison

__all__ = ["InPlaceLogic"]


class InPlaceLogic(InPlace):
    """Each method replaces the elements by what the method without the underscore gives; 1 is true."""

    def eq_(self, other: Operand) -> Self:
        """Write 1 where elements are equal, 0 elsewhere."""
        return self._write(comparison.Equal, other)

    def ne_(self, other: Operand) -> Self:
        """Write 1 where elements differ, 0 elsewhere."""
        return self._write(comparison.NotEqual, other)

    def lt_(self, other: Operand) -> Self:
        """Write 1 where elements are smaller, 0 elsewhere."""
        return self._write(comparison.Less, other)

    def le_(self, other: Operand) -> Self:
        """Write 1 where elements are at most as large, 0 elsewhere."""
        return self._write(comparison.LessEqual, other)

    def gt_(self, other: Operand) -> Self:
        """Write 1 where elements are larger, 0 elsewhere."""
        return self._write(comparison.Greater, other)

    def ge_(self, other: Operand) -> Self:
        """Write 1 where elements are at least as large, 0 elsewhere."""
        return self._write(comparison.GreaterEqual, other)

    def logical_and_(self, other: Operand) -> Self:
        """Write 1 where neither element is zero, 0 elsewhere."""
        return self._write(comparison.LogicalAnd, other)

    def logical_or_(self, other: Operand) -> Self:
        """Write 1 where one element at least is not zero, 0 elsewhere."""
        return self._write(comparison.LogicalOr, other)

    def logical_xor_(self, other: Operand) -> Self:
        """Write 1 where one element is zero and the other is not, 0 elsewhere."""
        return self._write(comparison.LogicalXor, other)

    def logical_not_(self) -> Self:
        """Write 1 where elements are zero, 0 elsewhere."""
        return self._write(comparison.LogicalNot)

    not_equal_, less_, less_equal_, greater_, greater_equal_ = ne_, lt_, le_, gt_, ge_

    def bitwise_and_(self, other: Operand) -> Self:
        """Keep the bits that both have."""
        return self._write(bitwise.BitwiseAnd, other)

    def bitwise_or_(self, other: Operand) -> Self:
        """Add the bits that `other` has."""
        return self._write(bitwise.BitwiseOr, other)

    def bitwise_xor_(self, other: Operand) -> Self:
        """Turn over the bits that `other` has."""
        return self._write(bitwise.BitwiseXor, other)

    def bitwise_left_shift_(self, other: Operand) -> Self:
        """Move the bits up by `other`."""
        return self._write(bitwise.LeftShift, other)

    def bitwise_right_shift_(self, other: Operand) -> Self:
        """Move the bits down by `other`."""
        return self._write(bitwise.RightShift, other)

    def gcd_(self, other: Operand) -> Self:
        """Replace each element by the greatest common divisor."""
        return self._write(bitwise.Gcd, other)

    def lcm_(self, other: Operand) -> Self:
        """Replace each element by the least common multiple."""
        return self._write(bitwise.Lcm, other)

    def bitwise_not_(self) -> Self:
        """Turn over each bit."""
        return self._write(bitwise.BitwiseNot)
