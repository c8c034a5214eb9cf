"""The error function, the gamma function and Bessel functions."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Carrier
from shardwise.tensor.ops import special_function

__all__ = ["SpecialFunctions"]


class SpecialFunctions(Carrier):
    """Functions of real numbers that are no elementary ones."""

    def erf(self) -> Self:
        """Return the error function of each element."""
        return special_function.Erf.apply(self)

    def erfc(self) -> Self:
        """Return ``1 - erf(x)`` of each element, exact where erf is nearly 1."""
        return special_function.Erfc.apply(self)

    def erfinv(self) -> Self:
        """Return the inverse of `erf` of each element: infinite at -1 and 1, NaN beyond."""
        return special_function.Erfinv.apply(self)

    def lgamma(self) -> Self:
        """Return the logarithm of the absolute value of the gamma function of each element."""
        return special_function.Lgamma.apply(self)

    def digamma(self) -> Self:
        """Return the derivative of `lgamma` at each element."""
        return special_function.Digamma.apply(self)

    def polygamma(self, n: int) -> Self:
        """Return the derivative of order `n` of `digamma` at each element.

        Raises
        ------
        ArgumentError
            For a negative `n`.
        """
        return special_function.Polygamma.apply(self, n=n)

    def i0(self) -> Self:
        """Return the modified Bessel function of order 0 of each element."""
        return special_function.I0.apply(self)

    def i0e(self) -> Self:
        """Return ``exp(-|x|) * i0(x)`` of each element."""
        return special_function.I0e.apply(self)

    def i1(self) -> Self:
        """Return the modified Bessel function of order 1 of each element."""
        return special_function.I1.apply(self)

    def i1e(self) -> Self:
        """Return ``exp(-|x|) * i1(x)`` of each element."""
        return special_function.I1e.apply(self)
