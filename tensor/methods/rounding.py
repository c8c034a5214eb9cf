"""Rounding, signs, and the parts of complex numbers."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import part, rounding

__all__ = ["Rounding"]


class Rounding(Carrier):
    """What keeps a part of each number."""

    # ---- steps, whose gradient is zero

    def floor(self) -> Self:
        """Return the next integer below each element."""
        return rounding.Floor.apply(self)

    def ceil(self) -> Self:
        """Return the next integer above each element."""
        return rounding.Ceil.apply(self)

    def trunc(self) -> Self:
        """Return each element without its fraction."""
        return rounding.Trunc.apply(self)

    fix = trunc

    def round(self, decimals: int = 0) -> Self:
        """Return the nearest number with so many decimals (tens, if negative); halves go to even."""
        return rounding.Round.apply(self, decimals=decimals)

    def frac(self) -> Self:
        """Return the fraction of each element, with its sign."""
        return rounding.Frac.apply(self)

    # ---- signs

    def sign(self) -> Self:
        """Return -1, 0 or 1 by the sign of each element; of complex numbers the direction, as `sgn`."""
        return part.Sgn.apply(self)

    def sgn(self) -> Self:
        """Return each element divided by its absolute value, and 0 at 0."""
        return part.Sgn.apply(self)

    def copysign(self, other: Operand) -> Self:
        """Return the size of each element with the sign of `other`."""
        return rounding.Copysign.apply(self, other)

    def heaviside(self, values: Operand) -> Self:
        """Return 0 where elements are negative, 1 where they are positive, and `values` where they are 0."""
        return rounding.Heaviside.apply(self, values)

    # ---- complex numbers

    @property
    def real(self) -> Self:
        """The real part, in the same memory; self, if the numbers are real."""
        return part.Real.apply(self) if self.data.dtype.kind == "c" else self

    @property
    def imag(self) -> Self:
        """The imaginary part, in the same memory; zeros, if the numbers are real."""
        return part.Imag.apply(self)

    def conj(self) -> Self:
        """Return the complex conjugate of each element; self, if the numbers are real."""
        return part.Conj.apply(self) if self.data.dtype.kind == "c" else self

    conj_physical = conj

    def angle(self) -> Self:
        """Return the angle of each complex number, from -pi to pi; of real ones 0, or pi below 0."""
        return part.Angle.apply(self)
