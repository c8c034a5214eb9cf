"""Exponentials, logarithms and what is made of them."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import elementary

__all__ = ["Exponential"]


class Exponential(Carrier):
    """Functions of one element, or of two, that grow and decay."""

    def exp(self) -> Self:
        """Return e to the power of each element."""
        return elementary.Exp.apply(self)

    def exp2(self) -> Self:
        """Return 2 to the power of each element."""
        return elementary.Exp2.apply(self)

    def expm1(self) -> Self:
        """Return ``exp(x) - 1`` of each element, exact near 0."""
        return elementary.Expm1.apply(self)

    def log(self) -> Self:
        """Return the natural logarithm of each element."""
        return elementary.Log.apply(self)

    def log2(self) -> Self:
        """Return the logarithm to the base 2 of each element."""
        return elementary.Log2.apply(self)

    def log10(self) -> Self:
        """Return the logarithm to the base 10 of each element."""
        return elementary.Log10.apply(self)

    def log1p(self) -> Self:
        """Return ``log(1 + x)`` of each element, exact near 0."""
        return elementary.Log1p.apply(self)

    def logaddexp(self, other: Operand) -> Self:
        """Return ``log(exp(self) + exp(other))`` without overflow."""
        return elementary.LogAddExp.apply(self, other)

    def logaddexp2(self, other: Operand) -> Self:
        """Return ``log2(2**self + 2**other)`` without overflow."""
        return elementary.LogAddExp2.apply(self, other)

    def xlogy(self, other: Operand) -> Self:
        """Return ``self * log(other)``, and 0 where self is 0, unless other is NaN."""
        return elementary.XLogY.apply(self, other)

    def xlog1py(self, other: Operand) -> Self:
        """Return ``self * log1p(other)``, and 0 where self is 0, unless other is NaN."""
        return elementary.XLog1pY.apply(self, other)

    def sigmoid(self) -> Self:
        """Return ``1 / (1 + exp(-x))`` of each element."""
        return elementary.Sigmoid.apply(self)

    def logit(self, eps: float | None = None) -> Self:
        """Return ``log(x / (1 - x))`` of each element, the inverse of `sigmoid`.

        Parameters
        ----------
        eps : float, optional
            Keep the elements within ``[eps, 1 - eps]`` first; those outside have a gradient of zero.
            Without it elements outside of [0, 1] give NaN.
        """
        return elementary.Logit.apply(self, eps=eps)
