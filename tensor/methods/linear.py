"""Products of vectors and matrices, by PyTorch's names."""

from __future__ import annotations

from typing import Self

from shardwise.tensor.methods.carrier import Carrier, Operand
from shardwise.tensor.ops import product

__all__ = ["LinearAlgebra"]


class LinearAlgebra(Carrier):
    """What treats tensors as vectors and matrices; the operator ``@`` takes any of them."""

    def mm(self, mat2: Operand) -> Self:
        """Return the product of two matrices."""
        return product.mm(self, mat2)

    def bmm(self, mat2: Operand) -> Self:
        """Return the products of two batches of matrices, (b, m, k) and (b, k, n)."""
        return product.bmm(self, mat2)

    def mv(self, vec: Operand) -> Self:
        """Return the product of a matrix and a vector."""
        return product.mv(self, vec)

    def dot(self, tensor: Operand) -> Self:
        """Return the sum of the products of two vectors' elements, without conjugating."""
        return product.dot(self, tensor)

    def vdot(self, other: Operand) -> Self:
        """Return the sum of the products of two vectors' elements, the first conjugated."""
        return product.vdot(self, other)

    def inner(self, other: Operand) -> Self:
        """Return the sums of products over the last dim of both."""
        result: Self = product.inner(self, other)
        return result

    def outer(self, vec2: Operand) -> Self:
        """Return all products of the elements of two vectors, shape (m, n)."""
        result: Self = product.outer(self, vec2)
        return result

    ger = outer

    def kron(self, other: Operand) -> Self:
        """Return the Kronecker product: a copy of `other` in the place of each element, times it."""
        result: Self = product.kron(self, other)
        return result

    # ---- products that are added to something

    def addmm(self, mat1: Operand, mat2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Return ``beta * self + alpha * (mat1 @ mat2)``; with a `beta` of 0, NaN in self does not count."""
        result: Self = product.addmm(self, mat1, mat2, beta, alpha)
        return result

    def addmv(self, mat: Operand, vec: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Return ``beta * self + alpha * (mat @ vec)``."""
        result: Self = product.addmv(self, mat, vec, beta, alpha)
        return result

    def addr(self, vec1: Operand, vec2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Return ``beta * self + alpha * outer(vec1, vec2)``."""
        result: Self = product.addr(self, vec1, vec2, beta, alpha)
        return result

    def baddbmm(self, batch1: Operand, batch2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Return ``beta * self + alpha * bmm(batch1, batch2)``."""
        result: Self = product.baddbmm(self, batch1, batch2, beta, alpha)
        return result

    def addbmm(self, batch1: Operand, batch2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Return ``beta * self`` plus `alpha` times the sum of ``bmm(batch1, batch2)`` over the batch."""
        result: Self = product.addbmm(self, batch1, batch2, beta, alpha)
        return result
