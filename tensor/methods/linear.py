"""Products of vectors and matrices, by PyTorch's names."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.methods.in_place import InPlace
from shardwise.tensor.ops import (
    cross,
    determinant,
    factorization,
    inverse,
    matmul,
    matrix_function,
    product,
    singular,
)

__all__ = ["LinearAlgebra"]


class LinearAlgebra(InPlace):
    """What treats tensors as vectors and matrices; the operator ``@`` takes any of them."""

    def matmul(self, other: Operand) -> Self:
        """Return the product of matrices, batches of them or vectors, as ``@`` does."""
        return matmul.MatMul.apply(self, other)

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

    def addmm_(self, mat1: Operand, mat2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Do `addmm` in place."""
        tracked = self._tracked("addmm_", mat1, mat2)
        return self._put("addmm_", self.addmm(mat1, mat2, beta=beta, alpha=alpha), tracked)

    def addmv_(self, mat: Operand, vec: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Do `addmv` in place."""
        tracked = self._tracked("addmv_", mat, vec)
        return self._put("addmv_", self.addmv(mat, vec, beta=beta, alpha=alpha), tracked)

    def addr_(self, vec1: Operand, vec2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Do `addr` in place."""
        tracked = self._tracked("addr_", vec1, vec2)
        return self._put("addr_", self.addr(vec1, vec2, beta=beta, alpha=alpha), tracked)

    def baddbmm_(self, batch1: Operand, batch2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Do `baddbmm` in place."""
        tracked = self._tracked("baddbmm_", batch1, batch2)
        return self._put("baddbmm_", self.baddbmm(batch1, batch2, beta=beta, alpha=alpha), tracked)

    def addbmm_(self, batch1: Operand, batch2: Operand, *, beta: complex = 1, alpha: complex = 1) -> Self:
        """Do `addbmm` in place."""
        tracked = self._tracked("addbmm_", batch1, batch2)
        return self._put("addbmm_", self.addbmm(batch1, batch2, beta=beta, alpha=alpha), tracked)

    # ---- square matrices

    def inverse(self) -> Self:
        """Return the inverses of square matrices."""
        return inverse.Inv.apply(self)

    def det(self) -> Self:
        """Return the determinants of square matrices; gradients also of singular ones."""
        return determinant.Det.apply(self)

    def logdet(self) -> Self:
        """Return the logarithms of determinants: NaN for negative ones, -inf for singular matrices."""
        result: Self = determinant.logdet(self)
        return result

    def slogdet(self) -> tuple[Self, Self]:
        """Return the signs of determinants, and the logarithms of their absolute values."""
        parts: Any = determinant.SlogDet.apply(self)
        sign, logabsdet = parts
        return sign, logabsdet

    def matrix_power(self, n: int) -> Self:
        """Return square matrices to the power of an integer; negative ones take the inverse."""
        result: Self = matrix_function.matrix_power(self, n)
        return result

    def matrix_exp(self) -> Self:
        """Return the exponentials of square matrices."""
        return matrix_function.MatrixExp.apply(self)

    # ---- factors

    def cholesky(self, upper: bool = False) -> Self:
        """Return the triangular factors L of positive-definite matrices ``L @ L^H``, or ``L^H``."""
        return factorization.Cholesky.apply(self, upper=upper)

    def cholesky_solve(self, L: Operand, upper: bool = False) -> Self:
        """Return the X with ``A @ X = self``, given the Cholesky factor of A."""
        result: Self = factorization.cholesky_solve(self, L, upper)
        return result

    def cholesky_inverse(self, upper: bool = False) -> Self:
        """Return the inverses of the matrices whose Cholesky factors these are."""
        n, dtype = self.data.shape[-1], self.data.dtype
        identity: Any = np.eye(n, dtype=dtype, like=self.data)
        result: Self = factorization.cholesky_solve(identity, self, upper)
        return result

    def qr(self, some: bool = True) -> tuple[Self, Self]:
        """Return orthonormal columns Q and an upper triangle R with the product ``Q @ R``."""
        parts: Any = factorization.QR.apply(self, mode="reduced" if some else "complete")
        q, r = parts
        return q, r

    def svd(self, some: bool = True, compute_uv: bool = True) -> tuple[Self, Self, Self]:
        """Return U, S and V with ``self = U @ diag(S) @ V^H``; ``linalg.svd`` gives V^H instead.

        Without `compute_uv` U and V are zeros.
        """
        if compute_uv:
            parts: Any = singular.SVD.apply(self, full_matrices=not some)
            left, s, right = parts
            return left, s, np.conjugate(np.swapaxes(right, -1, -2))
        *batch, m, n = self.data.shape
        like: Any = self
        u: Any = np.zeros_like(like, shape=(*batch, m, m))
        v: Any = np.zeros_like(like, shape=(*batch, n, n))
        return u, singular.SingularValues.apply(self), v

    def pinverse(self, rcond: complex = 1e-15) -> Self:
        """Return the pseudo-inverses of matrices; values up to `rcond` times the largest count as zero."""
        return singular.Pinv.apply(self, rtol=rcond)

    def cross(self, other: Operand, dim: int | None = None) -> Self:
        """Return the cross products along `dim`, of size three; the first such dim if it is not given."""
        result: Self = cross.cross(self, other, dim)
        return result
