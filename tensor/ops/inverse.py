"""Inverses, and the solution of systems of linear equations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.matrix import adjoint, attempt, check_matrices

__all__ = ["Inv", "Solve", "SolveTriangular", "is_vector", "solve", "solve_triangular"]

_BLOCK = 48  # rows; smaller systems are left to LAPACK

Shape = tuple[int, ...]

_SINGULAR = (
    "is singular. Add a small multiple of the identity, or use pinv() or lstsq(), which take any matrix"
)


class Inv(Function):
    """The inverses of square matrices."""

    signature = "...[m][n]->...[n][m]"
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        return 2 * math.prod(shapes[0]) * shapes[0][-1]

    @staticmethod
    def forward(ctx: Context, a: Array) -> Array:
        check_matrices("inv", a)
        out = attempt("inv", np.linalg.inv, a, why=_SINGULAR)
        ctx.save(out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (out,) = ctx.saved
        turned = adjoint(out)
        return (-(turned @ g @ turned),)


class Solve(Function):
    """The solutions X of ``a @ X = b``, for matrices b; batch dims broadcast."""

    signature = "...[m][n],...[m]k->...[n]k"
    linear = (1,)
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        n, k = shapes[1][-2:]
        batch = math.prod(np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]))
        return batch * (2 * n**3 // 3 + 2 * n * n * k)

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        _check_system("solve", a, b)
        out = attempt("solve", np.linalg.solve, *_same_batch(a, b), why=_SINGULAR)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        db = Solve.apply(adjoint(a), g)
        return -(db @ adjoint(out)) if ctx.need[0] else None, db


def solve(a: Any, b: Any, left: bool = True) -> Any:
    """Return the solutions of ``a @ X = b``, or of ``X @ a = b``; `b` may hold vectors."""
    check_matrices("solve", a)
    if is_vector(a, b):
        if not left:
            raise ShapeError(
                f"solve: wanted matrices on the right side with left=False, got shape {b.shape}; "
                "give vectors a dim of size one"
            )
        out = Solve.apply(a, np.expand_dims(b, -1))
        return np.reshape(out, out.shape[:-1])
    if left:
        return Solve.apply(a, b)
    _check_system("solve", a, b, left=False)
    return np.swapaxes(Solve.apply(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def is_vector(a: Any, b: Any) -> bool:
    """Tell whether `b` holds one vector per matrix of `a`, by PyTorch's rule."""
    return bool(b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1])))


class SolveTriangular(Function):
    """The solutions X of ``a @ X = b``, where only one triangle of `a` counts."""

    signature = "...[m][n],...[m]k->...[n]k"
    linear = (1,)
    precision = "wide"

    @staticmethod
    def flops(shapes: tuple[Shape, ...], params: dict[str, Any]) -> int:
        n, k = shapes[1][-2:]
        return math.prod(np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])) * n * n * k

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array, upper: bool, unitriangular: bool = False) -> Array:
        _check_system("solve_triangular", a, b)
        ctx.upper, ctx.unit = upper, unitriangular
        triangle = np.triu(a) if upper else np.tril(a)
        if unitriangular:
            triangle = np.where(np.eye(a.shape[-1], dtype=bool, like=a), 1.0, triangle)

        def substitute(t: Array, right: Array) -> Array:
            return _substituted(t, right, upper)

        why = "has a zero on its diagonal, so the system has no single solution"
        out = attempt("solve_triangular", substitute, *_same_batch(triangle, b), why=why)
        ctx.save(a, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, out = ctx.saved
        db = SolveTriangular.apply(adjoint(a), g, upper=not ctx.upper, unitriangular=ctx.unit)
        da = None
        if ctx.need[0]:
            full = -(db @ adjoint(out))
            da = np.triu(full, int(ctx.unit)) if ctx.upper else np.tril(full, -int(ctx.unit))
        return da, db


def solve_triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return the solutions of ``a @ X = b``, or of ``X @ a = b``, where only one triangle of `a` counts."""
    check_matrices("solve_triangular", a)
    if left:
        return SolveTriangular.apply(a, b, upper=upper, unitriangular=unitriangular)
    _check_system("solve_triangular", a, b, left=False)
    a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    return np.swapaxes(SolveTriangular.apply(a, b, upper=not upper, unitriangular=unitriangular), -1, -2)


def _substituted(t: Array, b: Array, upper: bool) -> Array:
    """Solve by halves, so that nearly all of the work is matrix products; NumPy has no triangular solver."""
    n = t.shape[-1]
    if n <= _BLOCK:
        if upper:
            return np.linalg.solve(t, b)
        # turned around it is an upper one, of which LAPACK's pivoting leaves the rows where they are
        turned = np.linalg.solve(np.flip(t, (-2, -1)), np.flip(b, -2))
        return np.flip(turned, -2)
    half = n // 2
    if upper:
        low = _substituted(t[..., half:, half:], b[..., half:, :], upper)
        high = _substituted(t[..., :half, :half], b[..., :half, :] - t[..., :half, half:] @ low, upper)
    else:
        high = _substituted(t[..., :half, :half], b[..., :half, :], upper)
        low = _substituted(t[..., half:, half:], b[..., half:, :] - t[..., half:, :half] @ high, upper)
    return np.concatenate([high, low], axis=-2)


def _same_batch(a: Array, b: Array) -> tuple[Array, Array]:
    """Broadcast the batch dims, which CuPy leaves to the caller."""
    if a.shape[:-2] != b.shape[:-2]:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    return a, b


def _check_system(op: str, a: Any, b: Any, left: bool = True) -> None:
    check_matrices(op, a)
    rows = b.shape[-2 if left else -1] if b.ndim > 1 else None
    if rows != a.shape[-1]:
        wanted = f"(..., {a.shape[-1]}, k)" if left else f"(..., k, {a.shape[-1]})"
        raise ShapeError(
            f"{op}: for matrices of shape {tuple(a.shape)} wanted a right side of shape {wanted}, "
            f"got {tuple(b.shape)}"
        )
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise ShapeError(
            f"{op}: the batch dims of shapes {tuple(a.shape)} and {tuple(b.shape)} do not broadcast"
        ) from error
