"""Matrices taken apart: triangular factors, eigenvalues, singular values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from shardwise.backend.errors import ArgumentError
from shardwise.tensor.mode import no_grad
from shardwise.tensor.ops import factorization, singular, spectrum
from shardwise.tensor.tensor import Tensor

__all__ = [
    "EigenResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd",
    "svdvals",
]  # fmt: skip


class QRResult(NamedTuple):
    """Factors of a matrix."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Singular vectors and values: ``A = U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EigenResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the triangular factors L of positive-definite matrices, ``A = L @ L^H``.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
        Hermitian (symmetric, if real); only the lower triangle is read, with `upper` only the upper one.
    upper : bool
        Return ``L^H``.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    LinAlgError
        If a matrix is not positive-definite; says which of the batch.

    Examples
    --------
    >>> import shardwise as sw
    >>> cholesky(sw.tensor([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return factorization.Cholesky.apply(A, upper=upper)


def qr(A: Tensor, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult:
    """Return factors Q, with orthonormal columns, and R, upper-triangular, with ``A = Q @ R``.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    mode : "reduced", "complete" or "r"
        Q of shape (..., m, min(m, n)), or square, or empty.

    Returns
    -------
    QRResult
        ``Q`` and ``R``.

    Raises
    ------
    AutogradError
        From backward, in mode "complete" for more rows than columns: the last columns of Q are arbitrary.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr: wanted mode to be 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = _parts(factorization.QR.apply(A, mode="complete" if mode == "complete" else "reduced"))
    if mode == "r":
        with no_grad():
            q = q[..., :0, :0].reshape(0)
    return QRResult(q, r)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """Return the singular value decomposition, ``A = U @ diag(S) @ Vh``.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    full_matrices : bool, default True
        U and Vh square, or U of shape (..., m, k) and Vh of shape (..., k, n) with k = min(m, n).
    driver : str, optional
        There is one; the argument is for programs written for PyTorch.

    Returns
    -------
    SVDResult
        ``U``, ``S`` (real and descending) and ``Vh``.

    Notes
    -----
    Singular vectors are known up to a common factor of absolute value one per pair, and those of one value
    up to a rotation. The gradient is that of results which do not depend on that choice; with
    `full_matrices` it leaves the vectors out that belong to no singular value.
    """
    return SVDResult(*_parts(singular.SVD.apply(A, full_matrices=full_matrices)))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Return the singular values, descending, shape (..., min(m, n)); cheaper and safer than `svd`."""
    return singular.SingularValues.apply(A)


def eigh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> EigenResult:
    """Return the eigenvalues and eigenvectors of Hermitian (symmetric, if real) matrices.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
    UPLO : "L" or "U"
        Which triangle is read.

    Returns
    -------
    EigenResult
        ``eigenvalues``, shape (..., n), real and ascending, and ``eigenvectors``, shape (..., n, n), as
        orthonormal columns.

    Notes
    -----
    The gradient is Hermitian too. Vectors are known up to a factor of absolute value one, and those of one
    value up to a rotation: it is the gradient of results which do not depend on that choice.
    """
    return EigenResult(*_parts(spectrum.Eigh.apply(A, uplo=_triangle("eigh", UPLO))))


def eigvalsh(A: Tensor, UPLO: Literal["L", "U"] = "L") -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending, shape (..., n)."""
    return spectrum.Eigvalsh.apply(A, uplo=_triangle("eigvalsh", UPLO))


def eig(A: Tensor) -> EigenResult:
    """Return the eigenvalues and eigenvectors of square matrices, complex and in no order.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)

    Returns
    -------
    EigenResult
        ``eigenvalues``, shape (..., n), and ``eigenvectors``, shape (..., n, n), as columns of length one.

    Notes
    -----
    The gradient needs distinct eigenvalues, and a result that does not depend on the vectors' phases.
    """
    return EigenResult(*_parts(spectrum.Eig.apply(A)))


def eigvals(A: Tensor) -> Tensor:
    """Return the eigenvalues of square matrices, complex and in no order, shape (..., n)."""
    return spectrum.Eigvals.apply(A)


def _parts(results: object) -> tuple[Any, ...]:
    assert isinstance(results, tuple)
    return results


def _triangle(op: str, uplo: str) -> Literal["L", "U"]:
    if uplo not in ("L", "U", "l", "u"):
        raise ArgumentError(f"{op}: wanted UPLO to be 'L' or 'U', got {uplo!r}")
    return "U" if uplo in "uU" else "L"
