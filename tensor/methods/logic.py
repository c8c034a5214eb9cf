"""Comparisons, logic and bits by name; questions about numbers."""

from __future__ import annotations

from typing import Self

import numpy as np

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import bitwise, comparison, part

__all__ = ["Logic"]


class Logic(Carrier):
    """What gives booleans, and what is done with bits."""

    # ---- comparisons

    def eq(self, other: Operand) -> Self:
        """Return where elements are equal."""
        return comparison.Equal.apply(self, other)

    def ne(self, other: Operand) -> Self:
        """Return where elements differ."""
        return comparison.NotEqual.apply(self, other)

    def lt(self, other: Operand) -> Self:
        """Return where elements are smaller than those of `other`."""
        return comparison.Less.apply(self, other)

    def le(self, other: Operand) -> Self:
        """Return where elements are at most those of `other`."""
        return comparison.LessEqual.apply(self, other)

    def gt(self, other: Operand) -> Self:
        """Return where elements are larger than those of `other`."""
        return comparison.Greater.apply(self, other)

    def ge(self, other: Operand) -> Self:
        """Return where elements are at least those of `other`."""
        return comparison.GreaterEqual.apply(self, other)

    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

    def isclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Self:
        """Return where ``|self - other| <= atol + rtol * |other|``.

        Equal infinities are close; NaN is close to NaN only if `equal_nan` says so.
        """
        return comparison.IsClose.apply(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def allclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Tell whether `isclose` holds for every element."""
        close = self.isclose(other, rtol, atol, equal_nan)
        return bool(np.all(close.data))

    def equal(self, other: Carrier) -> bool:
        """Tell whether the shapes and all elements are the same."""
        return self.data.shape == other.data.shape and bool(np.all(np.equal(self.data, other.data)))

    # ---- questions about numbers

    def isnan(self) -> Self:
        """Return where elements are NaN."""
        return comparison.IsNaN.apply(self)

    def isinf(self) -> Self:
        """Return where elements are infinite, on either side."""
        return comparison.IsInf.apply(self)

    def isposinf(self) -> Self:
        """Return where elements are positive infinity."""
        return comparison.Equal.apply(self, np.inf)

    def isneginf(self) -> Self:
        """Return where elements are negative infinity."""
        return comparison.Equal.apply(self, -np.inf)

    def isfinite(self) -> Self:
        """Return where elements are neither NaN nor infinite."""
        return comparison.IsFinite.apply(self)

    def isreal(self) -> Self:
        """Return where elements have no imaginary part."""
        return comparison.Equal.apply(part.Imag.apply(self), 0)

    def signbit(self) -> Self:
        """Return where the sign is negative, also of -0.0."""
        return comparison.SignBit.apply(self)

    # ---- logic: zero is false, all else is true

    def logical_not(self) -> Self:
        """Return where elements are zero."""
        return comparison.LogicalNot.apply(self)

    def logical_and(self, other: Operand) -> Self:
        """Return where neither element is zero."""
        return comparison.LogicalAnd.apply(self, other)

    def logical_or(self, other: Operand) -> Self:
        """Return where one element at least is not zero."""
        return comparison.LogicalOr.apply(self, other)

    def logical_xor(self, other: Operand) -> Self:
        """Return where one element is zero and the other is not."""
        return comparison.LogicalXor.apply(self, other)

    # ---- bits of integers, logic of booleans

    def bitwise_not(self) -> Self:
        """Return each bit turned over; the opposite of booleans."""
        return bitwise.BitwiseNot.apply(self)

    def bitwise_and(self, other: Operand) -> Self:
        """Return the bits that both have."""
        return bitwise.BitwiseAnd.apply(self, other)

    def bitwise_or(self, other: Operand) -> Self:
        """Return the bits that one has at least."""
        return bitwise.BitwiseOr.apply(self, other)

    def bitwise_xor(self, other: Operand) -> Self:
        """Return the bits that one has and the other has not."""
        return bitwise.BitwiseXor.apply(self, other)

    def bitwise_left_shift(self, other: Operand) -> Self:
        """Return the bits moved up by `other`: integers times ``2 ** other``."""
        return bitwise.LeftShift.apply(self, other)

    def bitwise_right_shift(self, other: Operand) -> Self:
        """Return the bits moved down by `other`: integers divided by ``2 ** other``, rounded down."""
        return bitwise.RightShift.apply(self, other)
