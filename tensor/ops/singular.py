"""Singular values and vectors, and what is made of them: pseudo-inverses, least squares.

A pair of singular vectors is known up to a common phase (and any rotation among those of one value): only
what does not depend on that choice has a gradient, and for that it is right, also where values coincide.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.matrix import (
    adjoint,
    attempt,
    check_matrices,
    columns_scaled,
    diagonal_matrix,
    epsilon,
    inverse_differences,
    inverse_or_zero,
    skew,
)

__all__ = ["SVD", "Lstsq", "Pinv", "SingularValues", "threshold"]

_FAILED = "gave no singular values; are there NaN or infinite numbers in it?"

Shape = tuple[int, ...]


def _flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
    *batch, m, n = shapes[0]
    return math.prod(batch) * (4 * m * n * min(m, n) + 8 * min(m, n) ** 3)


def _reduced(op: str, a: Array) -> Any:
    return attempt(op, lambda x: np.linalg.svd(x, full_matrices=False), a, why=_FAILED)


def _svd_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    m, n = shapes[0][-2:]
    few = "m" if m <= n else "n"
    left, right = ("m", "n") if params["full_matrices"] else (few, few)
    return f"...[m][n]->...[m][{left}],...[{few}],...[{right}][n]"


class SVD(Function):
    """Singular vectors U and V^H, and singular values, descending and real, with ``a = U diag(S) V^H``.

    With `full_matrices`, the vectors that belong to no singular value are arbitrary, and get no gradient.
    """

    signature = _svd_signature
    precision = "wide"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
        check_matrices("svd", a, square=False)
        u, s, vh = attempt("svd", lambda x: np.linalg.svd(x, full_matrices), a, why=_FAILED)
        ctx.save(u, s, vh)
        return u, s, vh

    @staticmethod
    def backward(ctx: Context, gu: Array, gs: Array, gvh: Array) -> Gradients:
        u, s, vh = ctx.saved
        m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
        if u.shape[-1] > k:
            u, gu = u[..., :k], gu[..., :k]
        if vh.shape[-2] > k:
            vh, gvh = vh[..., :k, :], gvh[..., :k, :]
        left, right = skew(adjoint(u) @ gu), skew(vh @ adjoint(gvh))
        scale = epsilon(s) * np.sum(s, axis=-1, keepdims=True)
        sums = np.expand_dims(s, -2) + np.expand_dims(s, -1)
        # left / (s_k^2 - s_j^2) s_k + s_j right / (s_k^2 - s_j^2), so parted that only the first term
        # knows of equal values; on the diagonal the second is the common phase of complex vectors
        inner = 0.5 * (left + right) * inverse_differences(s)
        inner = inner + 0.5 * (left - right) * inverse_or_zero(sums, np.expand_dims(scale, -1))
        da = u @ (inner + diagonal_matrix(gs)) @ vh
        inverse = inverse_or_zero(s, scale)
        if m > k:
            outside = columns_scaled(gu, inverse)
            da = da + (outside - u @ (adjoint(u) @ outside)) @ vh
        if n > k:
            outside = gvh * np.expand_dims(inverse, -1)
            da = da + u @ (outside - (outside @ adjoint(vh)) @ vh)
        return (da,)


def _values_signature(shapes: tuple[Shape, ...], params: dict[str, Any]) -> str:
    m, n = shapes[0][-2:]
    return f"...[m][n]->...[{'m' if m <= n else 'n'}]"


class SingularValues(Function):
    """Singular values, descending."""

    signature = _values_signature
    precision = "wide"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        check_matrices("svdvals", a, square=False)
        if not ctx.need[0]:
            return attempt("svdvals", lambda x: np.linalg.svd(x, compute_uv=False), a, why=_FAILED)
        u, s, vh = _reduced("svdvals", a)
        ctx.save(a, u, vh)
        return s

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, u, vh = ctx.saved
        if u is None:
            u, _, vh = SVD.apply(a, full_matrices=False)
        return (columns_scaled(u, g) @ vh,)


def threshold(largest: Any, shape: Shape, atol: Any, rtol: Any) -> Any:
    """Return up to where singular values count as 0: the larger of `atol` and `rtol` times the largest.

    Parameters
    ----------
    largest : array or Tensor, shape (..., 1)
    shape : tuple of int
        Of the matrices. Without `rtol` it is their rounding error, or 0 if `atol` is given.
    atol, rtol : number, array or Tensor, or None
        One number, or one per matrix.
    """
    if rtol is None:
        rtol = epsilon(largest) * max(shape[-2:]) if atol is None or _is_zero(atol) else 0.0
    relative = largest * (np.expand_dims(rtol, -1) if np.ndim(rtol) else rtol)
    if atol is None:
        return relative
    return np.maximum(relative, np.expand_dims(atol, -1) if np.ndim(atol) else atol)


def _is_zero(number: Any) -> bool:
    return isinstance(number, (int, float)) and number == 0


class Pinv(Function):
    """The pseudo-inverses (Moore and Penrose) of matrices, with small singular values taken for 0.

    The gradient (Golub and Pereyra, 1973) takes the rank for constant.
    """

    signature = "...[m][n]->...[n][m]"
    precision = "wide"
    flops = staticmethod(_flops)

    @staticmethod
    def forward(ctx: Context, a: Array, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Array:
        check_matrices("pinv", a, square=hermitian)
        if hermitian:
            s, u = attempt("pinv", np.linalg.eigh, a, why=_FAILED)
            vh = adjoint(u)
            largest = np.maximum(np.absolute(s[..., :1]), np.absolute(s[..., -1:]))
        else:
            u, s, vh = _reduced("pinv", a)
            largest = s[..., :1]
        inverse = inverse_or_zero(s, threshold(largest, a.shape, atol, rtol))
        out = columns_scaled(adjoint(vh), inverse) @ adjoint(u)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, p = ctx.saved
        ph, gh = adjoint(p), adjoint(g)
        inner = gh @ p @ ph  # (m, n) @ (n, m) @ (m, n)
        outer = ph @ p @ gh
        return (inner - a @ (p @ inner) + outer - (outer @ p) @ a - ph @ g @ ph,)


class Lstsq(Function):
    """The X of least norm among those that minimise ``a @ X - b``, for matrices b; batch dims broadcast."""

    signature = "...[m][n],...[m]k->...[n]k"
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return _flops(shapes[:1], params) + 2 * math.prod(shapes[0]) * shapes[1][-1]

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, rtol: Any = None) -> Array:
        u, s, vh = _reduced("lstsq", a)
        inverse = inverse_or_zero(s, threshold(s[..., :1], a.shape, None, rtol))
        out = adjoint(vh) @ (np.expand_dims(inverse, -1) * (adjoint(u) @ b))
        ctx.rtol = rtol
        ctx.save(a, b, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b, x = ctx.saved
        p = Pinv.apply(a, rtol=ctx.rtol)
        ph, gh = adjoint(p), adjoint(g)
        da = None
        if ctx.need[0]:
            inside = (ph @ x) @ gh  # (m, k) @ (k, n)
            da = (b - a @ x) @ gh @ p @ ph + inside - (inside @ p) @ a - (ph @ g) @ adjoint(x)
        return da, ph @ g
