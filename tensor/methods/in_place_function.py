"""In-place forms of the functions of each element."""

from __future__ import annotations

from typing import Self

from shardwise.backend.errors import ArgumentError
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.ops import (
    arithmetic,
    choice,
    circular,
    combination,
    elementary,
    hyperbolic,
    part,
    power,
    rounding,
    special_function,
)

__all__ = ["InPlaceFunctions"]


class InPlaceFunctions(InPlace):
    """Each method replaces the elements by what the method without the underscore returns."""

    # ---- signs, rounding

    def abs_(self) -> Self:
        """Replace each element by its absolute value."""
        return self._write(part.Abs)

    def neg_(self) -> Self:
        """Change the sign of each element."""
        return self._write(arithmetic.Neg)

    def sign_(self) -> Self:
        """Replace each element by its sign."""
        return self._write(part.Sgn)

    def sgn_(self) -> Self:
        """Divide each element by its absolute value; 0 stays 0."""
        return self._write(part.Sgn)

    def floor_(self) -> Self:
        """Round each element down."""
        return self._write(rounding.Floor)

    def ceil_(self) -> Self:
        """Round each element up."""
        return self._write(rounding.Ceil)

    def trunc_(self) -> Self:
        """Drop the fraction of each element."""
        return self._write(rounding.Trunc)

    def round_(self, decimals: int = 0) -> Self:
        """Round each element to so many decimals, halves to even."""
        return self._write(rounding.Round, decimals=decimals)

    def frac_(self) -> Self:
        """Keep the fraction of each element."""
        return self._write(rounding.Frac)

    def copysign_(self, other: Operand) -> Self:
        """Give each element the sign of `other`."""
        return self._write(rounding.Copysign, other)

    def heaviside_(self, values: Operand) -> Self:
        """Replace each element by 0, 1, or `values` where it is 0."""
        return self._write(rounding.Heaviside, values)

    def conj_physical_(self) -> Self:
        """Replace each element by its complex conjugate."""
        return self._write(part.Conj)

    absolute_, negative_, fix_ = abs_, neg_, trunc_

    # ---- choice

    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Keep the elements between `min` and `max`, either of which may be None."""
        if min is None and max is None:
            raise ArgumentError("clamp_: give min, or max, or both")
        return self._write(choice.Clip, min, max)

    clip_ = clamp_

    def clamp_min_(self, min: Operand) -> Self:
        """Keep the elements at or above `min`."""
        return self._write(choice.Clip, min, None)

    def clamp_max_(self, max: Operand) -> Self:
        """Keep the elements at or below `max`."""
        return self._write(choice.Clip, None, max)

    def relu_(self) -> Self:
        """Replace negative elements by 0."""
        return self._write(elementary.Relu)

    def nan_to_num_(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Replace NaN and the infinities by numbers."""
        return self._write(choice.NanToNum, nan=nan, posinf=posinf, neginf=neginf)

    def masked_fill_(self, mask: Operand, value: Operand) -> Self:
        """Write `value` where `mask`, of booleans, is true.

        Raises
        ------
        DTypeError
            `mask` is not of booleans, or `value` is of a wider kind than self.
        """
        tracked = self._tracked("masked_fill_", value)
        return self._put("masked_fill_", arithmetic.masked_fill(self, mask, value), tracked)

    # ---- several operations in one

    def addcmul_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add ``value * tensor1 * tensor2``."""
        return self._write(combination.Addcmul, tensor1, tensor2, value=value)

    def addcdiv_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add ``value * tensor1 / tensor2``."""
        return self._write(combination.Addcdiv, tensor1, tensor2, value=value)

    def lerp_(self, end: Operand, weight: Operand) -> Self:
        """Go the part `weight` of the way to `end`."""
        return self._write(combination.Lerp, end, weight)

    def ldexp_(self, other: Operand) -> Self:
        """Multiply by ``2 ** other``."""
        return self._write(combination.Ldexp, other)

    # ---- powers, exponentials, logarithms

    def square_(self) -> Self:
        """Square each element."""
        return self._write(power.Square)

    def sqrt_(self) -> Self:
        """Replace each element by its square root."""
        return self._write(power.Sqrt)

    def rsqrt_(self) -> Self:
        """Replace each element by one over its square root."""
        return self._write(power.Rsqrt)

    def reciprocal_(self) -> Self:
        """Replace each element by one over it."""
        return self._write(power.Reciprocal)

    def exp_(self) -> Self:
        """Replace each element by its exponential."""
        return self._write(elementary.Exp)

    def exp2_(self) -> Self:
        """Replace each element by 2 to its power."""
        return self._write(elementary.Exp2)

    def expm1_(self) -> Self:
        """Replace each element by its exponential less 1."""
        return self._write(elementary.Expm1)

    def log_(self) -> Self:
        """Replace each element by its natural logarithm."""
        return self._write(elementary.Log)

    def log2_(self) -> Self:
        """Replace each element by its logarithm to the base 2."""
        return self._write(elementary.Log2)

    def log10_(self) -> Self:
        """Replace each element by its logarithm to the base 10."""
        return self._write(elementary.Log10)

    def log1p_(self) -> Self:
        """Replace each element ``x`` by ``log(1 + x)``."""
        return self._write(elementary.Log1p)

    def sigmoid_(self) -> Self:
        """Replace each element by its sigmoid."""
        return self._write(elementary.Sigmoid)

    def logit_(self, eps: float | None = None) -> Self:
        """Replace each element, kept within ``[eps, 1 - eps]``, by its logit."""
        return self._write(elementary.Logit, eps=eps)

    def float_power_(self, exponent: Operand) -> Self:
        """Raise each element to a power, in double precision."""
        return self._write(power.FloatPower, exponent)

    def hypot_(self, other: Operand) -> Self:
        """Replace each element by ``sqrt(self**2 + other**2)``."""
        return self._write(power.Hypot, other)

    def xlogy_(self, other: Operand) -> Self:
        """Multiply by ``log(other)``; 0 stays 0."""
        return self._write(elementary.XLogY, other)

    # ---- circular and hyperbolic functions

    def sin_(self) -> Self:
        """Replace each element by its sine."""
        return self._write(circular.Sin)

    def cos_(self) -> Self:
        """Replace each element by its cosine."""
        return self._write(circular.Cos)

    def tan_(self) -> Self:
        """Replace each element by its tangent."""
        return self._write(circular.Tan)

    def asin_(self) -> Self:
        """Replace each element by its inverse sine."""
        return self._write(circular.Arcsin)

    def acos_(self) -> Self:
        """Replace each element by its inverse cosine."""
        return self._write(circular.Arccos)

    def atan_(self) -> Self:
        """Replace each element by its inverse tangent."""
        return self._write(circular.Arctan)

    def sinh_(self) -> Self:
        """Replace each element by its hyperbolic sine."""
        return self._write(hyperbolic.Sinh)

    def cosh_(self) -> Self:
        """Replace each element by its hyperbolic cosine."""
        return self._write(hyperbolic.Cosh)

    def tanh_(self) -> Self:
        """Replace each element by its hyperbolic tangent."""
        return self._write(hyperbolic.Tanh)

    def asinh_(self) -> Self:
        """Replace each element by its inverse hyperbolic sine."""
        return self._write(hyperbolic.Arcsinh)

    def acosh_(self) -> Self:
        """Replace each element by its inverse hyperbolic cosine."""
        return self._write(hyperbolic.Arccosh)

    def atanh_(self) -> Self:
        """Replace each element by its inverse hyperbolic tangent."""
        return self._write(hyperbolic.Arctanh)

    def atan2_(self, other: Operand) -> Self:
        """Replace each element by the angle of the point (other, self)."""
        return self._write(circular.Arctan2, other)

    def sinc_(self) -> Self:
        """Replace each element ``x`` by ``sin(pi x) / (pi x)``."""
        return self._write(circular.Sinc)

    def deg2rad_(self) -> Self:
        """Turn degrees into radians."""
        return self._write(circular.Deg2Rad)

    def rad2deg_(self) -> Self:
        """Turn radians into degrees."""
        return self._write(circular.Rad2Deg)

    arcsin_, arccos_, arctan_, arctan2_ = asin_, acos_, atan_, atan2_
    arcsinh_, arccosh_, arctanh_ = asinh_, acosh_, atanh_

    # ---- special functions

    def erf_(self) -> Self:
        """Replace each element by its error function."""
        return self._write(special_function.Erf)

    def erfc_(self) -> Self:
        """Replace each element by 1 less its error function."""
        return self._write(special_function.Erfc)

    def erfinv_(self) -> Self:
        """Replace each element by the inverse of its error function."""
        return self._write(special_function.Erfinv)

    def lgamma_(self) -> Self:
        """Replace each element by the logarithm of its gamma function."""
        return self._write(special_function.Lgamma)

    def digamma_(self) -> Self:
        """Replace each element by the derivative of the logarithm of its gamma function."""
        return self._write(special_function.Digamma)

    def polygamma_(self, n: int) -> Self:
        """Replace each element by the derivative of order `n` of its digamma function."""
        return self._write(special_function.Polygamma, n=n)

    def i0_(self) -> Self:
        """Replace each element by its modified Bessel function of order 0."""
        return self._write(special_function.I0)
