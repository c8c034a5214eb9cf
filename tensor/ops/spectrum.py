"""Eigenvalues and eigenvectors.

A vector is known up to its phase (and any rotation among those of one value): only what does not depend on
that choice has a gradient, and for that it is right, also where values coincide.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.inverse import Solve
from shardwise.tensor.ops.matrix import (
    adjoint,
    attempt,
    check_matrices,
    columns_scaled,
    diagonal,
    diagonal_matrix,
    inverse_differences,
    skew,
)

__all__ = ["Eig", "Eigh", "Eigvals", "Eigvalsh", "Triangle"]

_FAILED = "gave no eigenvalues; are there NaN or infinite numbers in it?"

Shape = tuple[int, ...]
Triangle = Literal["L", "U"]


def _cubes(times: int) -> Any:
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return times * math.prod(shapes[0]) * shapes[0][-1]

    return staticmethod(flops)


class Eigh(Function):
    """The eigenvalues of Hermitian matrices, ascending and real, and their eigenvectors as columns.

    Only the triangle `uplo` is read; the gradient is that of a Hermitian matrix.
    """

    signature = "...[m][n]->...[n],...[m][n]"
    precision = "wide"
    flops = _cubes(9)

    @staticmethod
    def forward(ctx: Context, a: Array, uplo: Triangle = "L") -> tuple[Array, Array]:
        check_matrices("eigh", a)
        values, vectors = attempt("eigh", lambda x: np.linalg.eigh(x, uplo), a, why=_FAILED)
        ctx.save(values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx: Context, g_values: Array, g_vectors: Array) -> Gradients:
        values, vectors = ctx.saved
        inner = 0.5 * skew(adjoint(vectors) @ g_vectors) * inverse_differences(values)
        return (vectors @ (inner + diagonal_matrix(g_values)) @ adjoint(vectors),)


class Eigvalsh(Function):
    """The eigenvalues of Hermitian matrices, ascending and real."""

    signature = "...[m][n]->...[n]"
    precision = "wide"
    flops = _cubes(2)

    @staticmethod
    def forward(ctx: Context, a: Array, uplo: Triangle = "L") -> Array:
        check_matrices("eigvalsh", a)
        if not ctx.need[0]:
            return attempt("eigvalsh", lambda x: np.linalg.eigvalsh(x, uplo), a, why=_FAILED)
        ctx.uplo = uplo
        values, vectors = attempt("eigvalsh", lambda x: np.linalg.eigh(x, uplo), a, why=_FAILED)
        ctx.save(a, vectors)
        return values

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, vectors = ctx.saved
        if vectors is None:
            _, vectors = Eigh.apply(a, uplo=ctx.uplo)
        return (columns_scaled(vectors, g) @ adjoint(vectors),)


class Eig(Function):
    """The eigenvalues of square matrices, complex and in no order, and their eigenvectors as columns."""

    signature = "...[m][n]->...[n],...[m][n]"
    precision = "wide"
    flops = _cubes(25)

    @staticmethod
    def forward(ctx: Context, a: Array) -> tuple[Array, Array]:
        check_matrices("eig", a)
        values, vectors = attempt("eig", np.linalg.eig, a, why=_FAILED)
        # NumPy gives real arrays where all values happen to be real
        kind = np.result_type(vectors.dtype, np.complex64)
        values, vectors = values.astype(kind), vectors.astype(kind)
        ctx.save(values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx: Context, g_values: Array, g_vectors: Array) -> Gradients:
        values, vectors = ctx.saved
        turned = adjoint(vectors)
        inner = turned @ g_vectors
        # vectors have length one: what would stretch them is taken out
        stretch = diagonal(inner)
        inner = inner - columns_scaled(turned @ vectors, 0.5 * (stretch + conj(stretch)))
        inner = inner * conj(inverse_differences(values))
        off = inner - diagonal_matrix(diagonal(inner))
        return (Solve.apply(turned, (off + diagonal_matrix(g_values)) @ turned),)


class Eigvals(Function):
    """The eigenvalues of square matrices, complex and in no order."""

    signature = "...[m][n]->...[n]"
    precision = "wide"
    flops = _cubes(10)

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        check_matrices("eigvals", a)
        vectors = None
        if ctx.need[0]:
            values, vectors = attempt("eigvals", np.linalg.eig, a, why=_FAILED)
        else:
            values = attempt("eigvals", np.linalg.eigvals, a, why=_FAILED)
        kind = np.result_type(values.dtype, np.complex64)
        if vectors is not None:
            ctx.save(a, vectors.astype(kind))
        return values.astype(kind)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, vectors = ctx.saved
        if vectors is None:
            _, vectors = Eig.apply(a)
        turned = adjoint(vectors)
        return (Solve.apply(turned, np.expand_dims(g, -1) * turned),)
