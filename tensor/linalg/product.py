"""Products and powers."""

from __future__ import annotations

from collections.abc import Sequence

from shardwise.tensor.ops import cross as crossing
from shardwise.tensor.ops import matrix_function, product
from shardwise.tensor.ops.matmul import MatMul
from shardwise.tensor.ops.matrix import check_matrices
from shardwise.tensor.ops.triangle import Diagonal
from shardwise.tensor.tensor import Tensor

__all__ = [
    "cross", "diagonal", "matmul", "matrix_exp", "matrix_power", "multi_dot", "vander", "vecdot",
]  # fmt: skip


def matmul(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A @ B``."""
    return MatMul.apply(A, B)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices, multiplied in the order that costs least.

    The first and the last may be vectors.
    """
    result: Tensor = product.multi_dot(tensors)
    return result


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sums of ``conj(x) * y`` along `dim`; the other dims broadcast."""
    result: Tensor = product.vecdot(x, y, dim)
    return result


def cross(A: Tensor, B: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross products of vectors with three elements along `dim`; the other dims broadcast."""
    result: Tensor = crossing.cross(A, B, dim)
    return result


def matrix_power(A: Tensor, n: int) -> Tensor:
    """Return square matrices to the power of an integer; negative ones take the inverse."""
    result: Tensor = matrix_function.matrix_power(A, n)
    return result


def matrix_exp(A: Tensor) -> Tensor:
    """Return the exponentials of square matrices, ``I + A + A @ A / 2 + ...``, shape (..., n, n).

    References
    ----------
    N. J. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J. Matrix Anal.
    Appl. 26 (2005).
    """
    return matrix_function.MatrixExp.apply(A)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the powers 0 to N - 1 (as many as elements, if not given) of each element along a new dim.

    Examples
    --------
    >>> import shardwise as sw
    >>> vander(sw.tensor([2, 3]), N=3).tolist()
    [[1, 2, 4], [1, 3, 9]]
    """
    result: Tensor = matrix_function.vander(x, N)
    return result


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return the diagonals of matrices as a view, shape (..., k)."""
    check_matrices("diagonal", A, square=False)
    return Diagonal.apply(A, offset=offset, dim1=dim1, dim2=dim2)
