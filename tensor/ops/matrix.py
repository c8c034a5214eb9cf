"""What the formulas of linear algebra say of matrices: adjoints, diagonals, safe inverses, what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shardwise.backend.errors import LinAlgError, ShapeError
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.triangle import Diagonal, Undiagonal

__all__ = [
    "adjoint", "attempt", "check_matrices", "columns_scaled", "diagonal", "diagonal_matrix", "epsilon",
    "inverse_differences", "inverse_or_zero", "skew",
]  # fmt: skip


def check_matrices(op: str, a: Any, square: bool = True) -> None:
    """Raise unless the last two dims of `a` hold matrices, or square ones."""
    if a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        what = "square matrices, shape (..., n, n)" if square else "matrices, shape (..., m, n)"
        raise ShapeError(f"{op}: wanted {what}, got shape {tuple(a.shape)}")


def attempt(op: str, compute: Callable[..., Any], *arrays: Any, why: str) -> Any:
    """Call ``compute(*arrays)``; where NumPy gives up, say for which matrix of the batch, and `why`."""
    try:
        return compute(*arrays)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{op}: {_culprit(compute, arrays)} {why}") from error


def _culprit(compute: Callable[..., Any], arrays: tuple[Any, ...]) -> str:
    if not all(isinstance(a, np.ndarray) for a in arrays) or max(a.ndim for a in arrays) < 3:
        return "the matrix"
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    for place in np.ndindex(batch):
        try:
            compute(*_each(arrays, batch, place))
        except np.linalg.LinAlgError:
            return f"matrix {place[0] if len(place) == 1 else place} of a batch of shape {batch}"
    return f"a matrix of a batch of shape {batch}"


def _each(arrays: tuple[Any, ...], batch: tuple[int, ...], place: tuple[int, ...]) -> Iterator[Any]:
    for a in arrays:
        yield np.broadcast_to(a, (*batch, *a.shape[-2:]))[place]


def adjoint(a: Any) -> Any:
    """Return the conjugate transposes."""
    return conj(np.swapaxes(a, -1, -2))


def skew(a: Any) -> Any:
    """Return matrices less their adjoints."""
    return a - adjoint(a)


def diagonal(a: Any) -> Any:
    """Return the diagonals of matrices, shape (..., n)."""
    return Diagonal.apply(a, offset=0, dim1=-2, dim2=-1)


def diagonal_matrix(d: Any) -> Any:
    """Return matrices with `d`, shape (..., n), on their diagonals."""
    return Undiagonal.apply(d, shape=(*d.shape, d.shape[-1]), offset=0, dim1=-2, dim2=-1)


def columns_scaled(a: Any, factors: Any) -> Any:
    """Return ``a @ diag(factors)``."""
    return a * np.expand_dims(factors, -2)


def epsilon(a: Any) -> float:
    """Return the distance from 1 to the next number, in the dtype of `a`."""
    return float(np.finfo(a.dtype).eps)


def inverse_or_zero(values: Any, scale: Any) -> Any:
    """Return ``1 / values``, and 0 where a value is nothing beside `scale`.

    Eigenvalues and singular values are known to about the last place of the largest. Where they coincide,
    or vanish, the vectors that belong to them are arbitrary, and what depends on that choice has no gradient;
    0 leaves the gradient of everything else right.
    """
    tiny = np.absolute(values) <= scale
    return np.where(tiny, 0.0, 1.0 / np.where(tiny, 1.0, values))


def inverse_differences(values: Any) -> Any:
    """Return the matrices of ``1 / (values[k] - values[j])``, 0 where they coincide; shape (..., n, n)."""
    differences = np.expand_dims(values, -2) - np.expand_dims(values, -1)
    scale = epsilon(values) * np.sum(np.absolute(values), axis=-1, keepdims=True)
    return inverse_or_zero(differences, np.expand_dims(scale, -1))
