"""Numbers that tell of a matrix: determinants, norms, rank, condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from shardwise.backend.array import DTypeLike
from shardwise.tensor.mode import no_grad
from shardwise.tensor.ops import determinant
from shardwise.tensor.ops import matrix_norm as norms
from shardwise.tensor.ops.matrix_norm import Order
from shardwise.tensor.tensor import Tensor

__all__ = [
    "SlogdetResult", "cond", "det", "matrix_norm", "matrix_rank", "norm", "slogdet", "vector_norm",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """A determinant that neither overflows nor vanishes: ``sign * exp(logabsdet)``."""

    sign: Tensor
    logabsdet: Tensor


def det(A: Tensor) -> Tensor:
    """Return the determinants of square matrices, shape (...); gradients also of singular ones."""
    return determinant.Det.apply(A)


def slogdet(A: Tensor) -> SlogdetResult:
    """Return the sign of the determinants and the logarithm of their absolute value.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)

    Returns
    -------
    SlogdetResult
        ``sign`` (of absolute value one and complex, if A is; 0 for singular matrices) and ``logabsdet``
        (real; -inf for singular matrices), both of shape (...).

    Examples
    --------
    >>> import shardwise as sw
    >>> sign, logabsdet = slogdet(sw.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    parts: Any = determinant.SlogDet.apply(A)
    return SlogdetResult(*parts)


def norm(
    A: Tensor,
    ord: Order = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norm of a vector, or of a matrix.

    Parameters
    ----------
    A : Tensor
    ord : number, "fro" or "nuc", optional
        As for `vector_norm` where `dim` names one dim, and for `matrix_norm` where it names two. If not
        given, the square root of the sum of squares over `dim`.
    dim : int, or one or two ints, optional
        If not given, A is flattened without `ord`, and must have one or two dims with it.
    keepdim : bool
    dtype : dtype, optional
        To compute in.

    Examples
    --------
    >>> import shardwise as sw
    >>> norm(sw.tensor([3.0, 4.0])).item()
    5.0
    """
    result: Tensor = norms.norm(_cast(A, dtype), ord, dim, keepdim)
    return result


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norm of the elements over `dim`, taken as one long vector.

    Parameters
    ----------
    x : Tensor
    ord : number, default 2
        p for ``(|x|^p).sum() ^ (1/p)``; inf and -inf for the largest and smallest absolute value, 0 for
        the number of elements that are not zero.
    dim : int or sequence of int, optional
        All dims, if not given.
    keepdim : bool
    dtype : dtype, optional
        To compute in.

    Returns
    -------
    Tensor
        Real. The gradient is 0 where the norm is.
    """
    result: Tensor = norms.vector_norm(_cast(x, dtype), ord, dim, keepdim)
    return result


def matrix_norm(
    A: Tensor,
    ord: Order = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the norms of matrices.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    ord : "fro", "nuc", inf, -inf, 1, -1, 2 or -2
        Square root of the sum of squares; sum of the singular values; largest and smallest sum of absolute
        values of a row; of a column; largest and smallest singular value.
    dim : two ints, default (-2, -1)
        Of rows and columns.
    keepdim : bool
    dtype : dtype, optional
        To compute in.
    """
    result: Tensor = norms.matrix_norm(_cast(A, dtype), ord, dim, keepdim)
    return result


def cond(A: Tensor, p: Order = None) -> Tensor:
    """Return the condition numbers of matrices, ``norm(A, p) * norm(inv(A), p)``, shape (...).

    Without `p`, or with 2, it is the ratio of the largest and smallest singular value, and infinite for
    singular matrices.
    """
    result: Tensor = norms.cond(A, p)
    return result


def matrix_rank(
    A: Tensor,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return how many singular values are not zero, int64, shape (...).

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    atol, rtol : float or Tensor of the batch's shape, optional
        Singular values up to the larger of `atol` and `rtol` times the largest count as zero. Without both,
        `rtol` is max(m, n) times the dtype's epsilon.
    hermitian : bool
        The matrices are Hermitian; then the absolute values of eigenvalues are counted.
    """
    with no_grad():
        result: Tensor = norms.matrix_rank(A, atol, rtol, hermitian)
    return result


def _cast(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    return x if dtype is None else x.astype(dtype)
