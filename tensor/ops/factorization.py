"""Triangular factors: Cholesky and QR."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import AutogradError
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj
from shardwise.tensor.ops.inverse import SolveTriangular
from shardwise.tensor.ops.matrix import adjoint, attempt, check_matrices, diagonal, diagonal_matrix

__all__ = ["QR", "Cholesky", "cholesky_solve"]

Shape = tuple[int, ...]


class Cholesky(Function):
    """The triangular factors L of positive-definite matrices ``L @ L^H``, of which one triangle is read.

    The gradient is that of a Hermitian matrix.
    """

    signature = "...[m][n]->...[m][n]"
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return math.prod(shapes[0]) * shapes[0][-1] // 3

    @staticmethod
    def forward(ctx: Context, a: Array, upper: bool = False) -> Array:
        check_matrices("cholesky", a)
        ctx.upper = upper
        why = "is not positive-definite. Check that it is Hermitian, or add a small multiple of the identity"
        lower = attempt("cholesky", np.linalg.cholesky, adjoint(a) if upper else a, why=why)
        out = adjoint(lower) if upper else lower
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        lower, g_lower = (adjoint(out), adjoint(g)) if ctx.upper else (out, g)
        inner = np.tril(adjoint(lower) @ g_lower)
        half = inner - 0.5 * diagonal_matrix(diagonal(inner))
        turned = adjoint(lower)
        one = SolveTriangular.apply(turned, half + adjoint(half), upper=True)
        both = SolveTriangular.apply(turned, adjoint(one), upper=True)
        return (0.5 * adjoint(both),)


def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """Return the solutions X of ``A @ X = b``, given the Cholesky factor of A."""
    check_matrices("cholesky_solve", factor)
    turned = adjoint(factor)
    first, second = (turned, factor) if upper else (factor, turned)
    inner = SolveTriangular.apply(first, b, upper=False)
    return SolveTriangular.apply(second, inner, upper=True)


def _qr_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    m, n = shapes[0][-2:]
    k = "k" if params["mode"] == "complete" and m > n else "n" if m > n else "m"
    return f"...[m][n]->...[m][{k}],...[{k}][n]"


class QR(Function):
    """Factors Q with orthonormal columns, and R upper-triangular, with the product a."""

    signature = _qr_signature
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        *batch, m, n = shapes[0]
        return math.prod(batch) * 4 * max(m, n) * min(m, n) ** 2

    @staticmethod
    def forward(
        ctx: Context, a: Array, mode: Literal["reduced", "complete"] = "reduced"
    ) -> tuple[Array, Array]:
        check_matrices("qr", a, square=False)
        ctx.arbitrary = mode == "complete" and a.shape[-2] > a.shape[-1]
        q, r = np.linalg.qr(a, mode)
        ctx.save(q, r)
        return q, r

    @staticmethod
    def backward(ctx: Context, gq: Array, gr: Array) -> Gradients:
        if ctx.arbitrary:
            raise AutogradError(
                "qr with mode='complete' has no gradient for matrices with more rows than columns, since the "
                "last columns of Q are arbitrary; use mode='reduced'"
            )
        q, r = ctx.saved
        m, n = q.shape[-2], r.shape[-1]
        if m >= n:
            return (_tall(q, r, gq, gr),)
        # a = q @ [left, right]: what the right columns of R say goes to Q first
        left, right = r[..., :m], r[..., m:]
        g_left, g_right = gr[..., :m], gr[..., m:]
        gq = gq + q @ right @ adjoint(g_right)
        return (np.concatenate([_tall(q, left, gq, g_left), q @ g_right], axis=-1),)


def _tall(q: Any, r: Any, gq: Any, gr: Any) -> Any:
    """Return the gradient of a matrix with no more columns than rows."""
    inner = np.triu(gr @ adjoint(r) - adjoint(q) @ gq)
    on_diagonal = diagonal(inner)
    symmetric = inner + adjoint(inner) - 0.5 * diagonal_matrix(on_diagonal + conj(on_diagonal))
    return adjoint(SolveTriangular.apply(r, adjoint(gq + q @ symmetric), upper=True))
