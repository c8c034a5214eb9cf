"""Norms of vectors and matrices, and what is told by singular values: rank and condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.dim import counted_dim, counted_dims
from shardwise.tensor.ops.inverse import Inv
from shardwise.tensor.ops.matrix import check_matrices
from shardwise.tensor.ops.singular import SingularValues, threshold
from shardwise.tensor.ops.spectrum import Eigvalsh
from shardwise.tensor.ops.statistics import Norm

__all__ = ["Order", "cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

Order = float | Literal["fro", "nuc"] | None
Dims = int | Sequence[int] | None


def vector_norm(x: Any, ord: float = 2.0, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the p-norm over `dim`, taken as one long vector."""
    if isinstance(ord, str):
        raise ArgumentError(f"vector_norm: wanted a number for ord, got {ord!r}; matrix_norm() takes it")
    if ord < 0 and 0 in x.shape:
        dims = counted_dims("vector_norm", dim, x.ndim)
        _check_not_empty("vector_norm", x, dims)
    return Norm.apply(_inexact(x), p=float(ord), dim=_several(dim), keepdim=keepdim)


def matrix_norm(a: Any, ord: Order = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Any:
    """Return norms of matrices that lie in two dims."""
    if len(tuple(dim)) != 2 or a.ndim < 2:
        raise ShapeError(
            f"matrix_norm: wanted two dims of a matrix, got dim={dim} for shape {tuple(a.shape)}"
        )
    rows, columns = [counted_dim("matrix_norm", d, a.ndim) for d in dim]
    if rows == columns:
        raise ShapeError(f"matrix_norm: the dims of rows and columns are the same in dim={tuple(dim)}")
    if ord == "fro" or ord is None:
        return vector_norm(a, 2.0, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        summed, chosen = (rows, columns) if abs(float(ord)) == 1 else (columns, rows)
        sums = Norm.apply(_inexact(a), p=1.0, dim=summed, keepdim=True)
        out = _extreme("matrix_norm", sums, float(ord) > 0, chosen)
        return out if keepdim else np.squeeze(out, axis=tuple(sorted((rows, columns))))
    if ord not in (2, -2, "nuc"):
        raise ArgumentError(
            f"matrix_norm: wanted ord to be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}; "
            "vector_norm() takes any number"
        )
    values = SingularValues.apply(
        np.moveaxis(np.moveaxis(_inexact(a), rows, -1), columns - (columns > rows), -1)
    )
    if ord == "nuc":
        out = np.sum(values, axis=-1)
    else:
        out = np.squeeze(_extreme("matrix_norm", values, ord == 2, -1), axis=-1)
    return np.expand_dims(out, tuple(sorted((rows, columns)))) if keepdim else out


def _extreme(op: str, values: Any, largest: bool, dim: int) -> Any:
    """Return the largest or smallest along a dim that stays; 0 is the largest of none."""
    if values.shape[dim] == 0:
        if not largest:
            _check_not_empty(op, values, (dim,))
        return np.sum(values, axis=dim, keepdims=True)
    return (np.max if largest else np.min)(values, axis=dim, keepdims=True)


def norm(a: Any, ord: Order = None, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return a norm of a vector or a matrix, whichever `ord` and `dim` ask for.

    As in NumPy and PyTorch: without `ord` the 2-norm of all elements over `dim`; with it one dim is a
    vector, two are a matrix.
    """
    if ord is None:
        return vector_norm(a, 2.0, dim, keepdim)
    dims = tuple(range(a.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dim is None and a.ndim not in (1, 2):
        raise ShapeError(
            f"norm: with ord={ord!r} wanted a vector or a matrix, got shape {tuple(a.shape)}; name the dims"
        )
    if len(dims) == 1 and not isinstance(ord, str):
        return vector_norm(a, ord, dims, keepdim)
    if len(dims) != 2:
        raise ShapeError(f"norm: with ord={ord!r} wanted one or two dims, got dim={dim}")
    return matrix_norm(a, ord, dims, keepdim)


def cond(a: Any, p: Order = None) -> Any:
    """Return the condition numbers of matrices in some norm: how much an inverse magnifies errors."""
    check_matrices("cond", a, square=p not in (None, 2, -2))
    if p not in (None, 2, -2):
        return matrix_norm(a, p) * matrix_norm(Inv.apply(_inexact(a)), p)
    values = SingularValues.apply(_inexact(a))
    if values.shape[-1] == 0:  # 0, as in PyTorch
        return np.sum(values, axis=-1)
    largest, smallest = values[..., 0], values[..., -1]
    above, below = (smallest, largest) if p == -2 else (largest, smallest)
    nothing = below == 0
    return np.where(nothing, math.inf, above / np.where(nothing, 1.0, below))


def matrix_rank(a: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Return how many singular values lie above a threshold, int64."""
    check_matrices("matrix_rank", a, square=hermitian)
    a = _inexact(a)
    values = np.absolute(Eigvalsh.apply(a)) if hermitian else SingularValues.apply(a)
    if 0 in a.shape[-2:]:
        return np.sum(values > 0.0, axis=-1)
    largest = np.max(values, axis=-1, keepdims=True)
    return np.sum(values > threshold(largest, tuple(a.shape), atol, rtol), axis=-1)


def _several(dim: Dims) -> int | tuple[int, ...] | None:
    return dim if dim is None or isinstance(dim, int) else tuple(dim)


def _inexact(a: Any) -> Any:
    """Take integers and booleans as float64."""
    return a.astype(np.float64) if a.dtype.kind in "iub" else a


def _check_not_empty(op: str, a: Any, dims: tuple[int, ...]) -> None:
    if any(a.shape[d] == 0 for d in dims):
        raise ShapeError(f"{op}: shape {tuple(a.shape)} has no elements to choose from along dims {dims}")
