"""Inverses, linear equations, least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from shardwise.backend.errors import ShapeError
from shardwise.tensor.creation import as_tensor
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops import inverse, singular
from shardwise.tensor.ops.matrix import check_matrices
from shardwise.tensor.tensor import Tensor

__all__ = ["LstsqResult", "inv", "lstsq", "pinv", "solve", "solve_triangular", "tensorinv", "tensorsolve"]


class LstsqResult(NamedTuple):
    """What least squares gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def inv(A: Tensor) -> Tensor:
    """Return the inverses of square matrices, shape (..., n, n).

    Raises
    ------
    LinAlgError
        If a matrix is singular; says which of the batch.

    Examples
    --------
    >>> import shardwise as sw
    >>> inv(sw.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return inverse.Inv.apply(A)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Return the X with ``A @ X = B``, or with ``X @ A = B``.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    B : Tensor, shape (..., n, k), or vectors of shape (n,) or (..., n)
        (..., k, n) if not `left`. Batch dims broadcast, those of vectors must be A's.
    left : bool, default True
        On which side of X A stands.

    Returns
    -------
    Tensor
        Of B's shape, with broadcast batch dims.

    Raises
    ------
    LinAlgError
        If a matrix is singular; says which of the batch.

    Examples
    --------
    >>> import shardwise as sw
    >>> solve(sw.tensor([[2.0, 0.0], [0.0, 4.0]]), sw.tensor([1.0, 1.0])).tolist()
    [0.5, 0.25]
    """
    result: Tensor = inverse.solve(A, B, left)
    return result


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return the X with ``A @ X = B``, or with ``X @ A = B``, for triangular A.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
        Only its upper, or lower, triangle is read.
    B : Tensor, shape (..., n, k), or (..., k, n) if not `left`
    upper : bool
    left : bool, default True
    unitriangular : bool
        Take the diagonal for ones, and do not read it.

    Raises
    ------
    LinAlgError
        If there is a zero on a diagonal; says in which matrix of the batch.
    """
    result: Tensor = inverse.solve_triangular(A, B, upper, left, unitriangular)
    return result


def pinv(
    A: Tensor,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return the pseudo-inverses of matrices.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    atol, rtol : float or Tensor of the batch's shape, optional
        Singular values up to the larger of `atol` and `rtol` times the largest count as zero. Without both,
        `rtol` is max(m, n) times the dtype's epsilon.
    hermitian : bool
        The matrices are Hermitian; then eigenvalues are taken instead.

    Returns
    -------
    Tensor, shape (..., n, m)

    Notes
    -----
    The gradient takes the rank for constant, and is right for matrices without full rank as well.
    """
    return singular.Pinv.apply(A, atol=_plain(atol), rtol=_plain(rtol), hermitian=hermitian)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """Return the X of least norm among those for which ``A @ X - B`` is smallest.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    B : Tensor, shape (..., m, k), or vectors of shape (m,) or (..., m)
    rcond : float, optional
        Singular values up to this share of the largest count as zero; max(m, n) times the dtype's epsilon,
        if not given.
    driver : str, optional
        There is one, by singular values; the argument is for programs written for PyTorch.

    Returns
    -------
    LstsqResult
        ``solution``, ``residuals`` (the sums of squares that are left, if m > n and all matrices have full
        rank, else empty), ``rank`` (int64) and ``singular_values``. The solution and the residuals have
        gradients, which take the rank for constant.
    """
    if not (isinstance(A, Tensor) or isinstance(B, Tensor)):
        solved: tuple[Any, ...] = lstsq(as_tensor(A), as_tensor(B), rcond, driver=driver)
        return LstsqResult(*[each.data for each in solved])
    check_matrices("lstsq", A, square=False)
    vector = inverse.is_vector(A, B)
    right = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    if right.ndim < 2 or right.shape[-2] != m:
        raise ShapeError(
            f"lstsq: for matrices of shape {A.shape} wanted a right side of shape (..., {m}, k), "
            f"got {B.shape}"
        )
    solution = singular.Lstsq.apply(A, right, rtol=rcond)
    values = singular.SingularValues.apply(A.detach())
    rank = (values > singular.threshold(values[..., :1], A.shape, None, rcond)).sum(-1)
    # a dry run has no rank, and takes it for full
    if m > n and (A.device == "shape" or bool((rank == n).all())):
        left = A @ solution - right
        residuals = (left.abs() * left.abs() if left.data.dtype.kind == "c" else left * left).sum(-2)
    else:
        residuals = values[..., :0].reshape(-1)[:0]
    return LstsqResult(solution.squeeze(-1) if vector else solution, residuals, rank, values)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse with respect to ``tensordot(..., ind)``.

    Parameters
    ----------
    A : Tensor
        The sizes of its first `ind` dims multiply to the same number as those of the others.
    ind : int, default 2
    """
    before, after = A.shape[:ind], A.shape[ind:]
    size = math.prod(before)
    if ind < 1 or size != math.prod(after):
        raise ShapeError(
            f"tensorinv: wanted the first {ind} dims of shape {A.shape} to multiply to the same as the "
            f"others, got {size} and {math.prod(after)}"
        )
    return inverse.Inv.apply(A.reshape(size, size)).reshape(*after, *before)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Return the X with ``tensordot(A, X, X.ndim) = B``.

    Parameters
    ----------
    A : Tensor
        Its shape is B's shape and X's shape, whose sizes multiply to the same number.
    B : Tensor
    dims : sequence of int, optional
        Dims of A to move to its end first.
    """
    if dims is not None:
        moved = [counted_dim("tensorsolve", d, A.ndim) for d in dims]
        A = A.permute([d for d in range(A.ndim) if d not in moved] + moved)
    shape = A.shape[B.ndim :]
    size = math.prod(shape)
    if size * size != math.prod(A.shape) or size != math.prod(B.shape):
        raise ShapeError(
            f"tensorsolve: shapes {A.shape} and {B.shape} do not fit: wanted the first to be the second and "
            "another shape of as many elements"
        )
    flat: Tensor = inverse.solve(A.reshape(size, size), B.reshape(size))
    return flat.reshape(shape)


def _plain(number: float | Tensor | None) -> object:
    """A threshold has no gradient."""
    return number.data if isinstance(number, Tensor) else number
