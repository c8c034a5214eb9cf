"""Circular and hyperbolic functions and their inverses, under both of their names."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import circular, hyperbolic

__all__ = ["Trigonometry"]


class Trigonometry(Carrier):
    """Sines and their kin; angles are in radians."""

    def sin(self) -> Self:
        """Return the sine of each element."""
        return circular.Sin.apply(self)

    def cos(self) -> Self:
        """Return the cosine of each element."""
        return circular.Cos.apply(self)

    def tan(self) -> Self:
        """Return the tangent of each element."""
        return circular.Tan.apply(self)

    def asin(self) -> Self:
        """Return the inverse sine of each element, from -pi/2 to pi/2; NaN outside of [-1, 1]."""
        return circular.Arcsin.apply(self)

    def acos(self) -> Self:
        """Return the inverse cosine of each element, from 0 to pi; NaN outside of [-1, 1]."""
        return circular.Arccos.apply(self)

    def atan(self) -> Self:
        """Return the inverse tangent of each element, from -pi/2 to pi/2."""
        return circular.Arctan.apply(self)

    def atan2(self, other: Operand) -> Self:
        """Return the angle of the points (other, self), from -pi to pi; its gradient is 0 at the origin."""
        return circular.Arctan2.apply(self, other)

    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2

    def sinc(self) -> Self:
        """Return ``sin(pi x) / (pi x)`` of each element, and 1 at 0."""
        return circular.Sinc.apply(self)

    def deg2rad(self) -> Self:
        """Return degrees as radians."""
        return circular.Deg2Rad.apply(self)

    def rad2deg(self) -> Self:
        """Return radians as degrees."""
        return circular.Rad2Deg.apply(self)

    def sinh(self) -> Self:
        """Return the hyperbolic sine of each element."""
        return hyperbolic.Sinh.apply(self)

    def cosh(self) -> Self:
        """Return the hyperbolic cosine of each element."""
        return hyperbolic.Cosh.apply(self)

    def tanh(self) -> Self:
        """Return the hyperbolic tangent of each element."""
        return hyperbolic.Tanh.apply(self)

    def asinh(self) -> Self:
        """Return the inverse hyperbolic sine of each element."""
        return hyperbolic.Arcsinh.apply(self)

    def acosh(self) -> Self:
        """Return the inverse hyperbolic cosine of each element; NaN below 1."""
        return hyperbolic.Arccosh.apply(self)

    def atanh(self) -> Self:
        """Return the inverse hyperbolic tangent of each element; NaN outside of [-1, 1]."""
        return hyperbolic.Arctanh.apply(self)

    arcsinh, arccosh, arctanh = asinh, acosh, atanh
