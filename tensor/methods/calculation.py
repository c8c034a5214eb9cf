"""Arithmetic by name, with PyTorch's options; powers and roots."""

from __future__ import annotations

from typing import Any, Literal, Self

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import arithmetic, bitwise, combination, part, power

__all__ = ["Calculation"]


class Calculation(Carrier):
    """Sums, products, quotients, powers of elements."""

    def add(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Return ``self + alpha * other``."""
        return arithmetic.Add.apply(self, _scaled(other, alpha))

    def sub(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Return ``self - alpha * other``."""
        return arithmetic.Sub.apply(self, _scaled(other, alpha))

    def mul(self, other: Operand) -> Self:
        """Return ``self * other``."""
        return arithmetic.Mul.apply(self, other)

    def div(self, other: Operand, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Self:
        """Return ``self / other``, rounded towards zero (``"trunc"``) or down (``"floor"``) if asked.

        Rounded quotients of integers are integers; they, and those of floats, have a gradient of zero.
        """
        return arithmetic.quotient(rounding_mode).apply(self, other)

    subtract, multiply, divide = sub, mul, div

    def true_divide(self, other: Operand) -> Self:
        """Return ``self / other``."""
        return arithmetic.Div.apply(self, other)

    def floor_divide(self, other: Operand) -> Self:
        """Return ``self / other``, rounded down; the gradient is zero."""
        return arithmetic.FloorDiv.apply(self, other)

    def remainder(self, other: Operand) -> Self:
        """Return what `floor_divide` leaves: it has the sign of `other`."""
        return arithmetic.Remainder.apply(self, other)

    def fmod(self, other: Operand) -> Self:
        """Return what is left of a quotient rounded towards zero: it has the sign of `self`."""
        return arithmetic.Fmod.apply(self, other)

    def neg(self) -> Self:
        """Return each element with the other sign."""
        return arithmetic.Neg.apply(self)

    negative = neg

    def positive(self) -> Self:
        """Return self."""
        return self

    def abs(self) -> Self:
        """Return the absolute value of each element; the gradient is 0 at 0."""
        return part.Abs.apply(self)

    absolute = abs

    # ---- several operations in one

    def addcmul(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Return ``self + value * tensor1 * tensor2``."""
        return combination.Addcmul.apply(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Return ``self + value * tensor1 / tensor2``."""
        return combination.Addcdiv.apply(self, tensor1, tensor2, value=value)

    def lerp(self, end: Operand, weight: Operand) -> Self:
        """Return ``self + weight * (end - self)``."""
        return combination.Lerp.apply(self, end, weight)

    def ldexp(self, other: Operand) -> Self:
        """Return ``self * 2 ** other``."""
        return combination.Ldexp.apply(self, other)

    # ---- powers and roots

    def pow(self, exponent: Operand) -> Self:
        """Return ``self ** exponent``. An exponent of 0 gives 1, with a gradient of 0, also at 0."""
        return power.Pow.apply(self, exponent)

    def float_power(self, exponent: Operand) -> Self:
        """Return ``self ** exponent`` in double precision."""
        return power.FloatPower.apply(self, exponent)

    def square(self) -> Self:
        """Return each element times itself."""
        return power.Square.apply(self)

    def sqrt(self) -> Self:
        """Return the square root of each element; its gradient is infinite at 0."""
        return power.Sqrt.apply(self)

    def rsqrt(self) -> Self:
        """Return one over the square root of each element."""
        return power.Rsqrt.apply(self)

    def cbrt(self) -> Self:
        """Return the real cube root of each element."""
        return power.Cbrt.apply(self)

    def reciprocal(self) -> Self:
        """Return one over each element; of integers in float64."""
        return power.Reciprocal.apply(self)

    def hypot(self, other: Operand) -> Self:
        """Return ``sqrt(self**2 + other**2)`` without overflow; at the origin its gradient is 0."""
        return power.Hypot.apply(self, other)

    # ---- divisors

    def gcd(self, other: Operand) -> Self:
        """Return the greatest common divisor of integers."""
        return bitwise.Gcd.apply(self, other)

    def lcm(self, other: Operand) -> Self:
        """Return the least common multiple of integers."""
        return bitwise.Lcm.apply(self, other)


def _scaled(other: Any, alpha: complex) -> Any:
    return other if alpha == 1 else other * alpha
