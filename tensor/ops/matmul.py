"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.reduction.reduction import column_sum
from shardwise.backend.product import matmul
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.conjugate import conj

__all__ = ["Linear", "MatMul", "product"]

_EXACT = 2**53  # up to here float64 holds every integer
_LARGE = 2**15  # multiply-adds from which two casts cost less than NumPy's loop over integers


class MatMul(Function):
    """``a @ b`` by NumPy's rules: batch dims broadcast, one-dimensional operands are vectors."""

    broadcasts = True
    reduces = "sum"
    linear = "each"
    accumulates = True
    precision = "narrow"

    @staticmethod
    def signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
        a, b = len(shapes[0]), len(shapes[1])
        if a == 1 or b == 1:
            left, right = ("k" if a == 1 else "...mk"), ("k" if b == 1 else "...kn")
            return f"{left},{right}->{'' if a == b else '...n' if a == 1 else '...m'}"
        return "...mk,...kn->...mn"

    @staticmethod
    def forward(ctx: Context, a: Array, b: Array) -> Array:
        ctx.save(a, b)
        try:
            if b.ndim == 2 and a.ndim > 2:  # one large product instead of many small ones
                rows = product(_rows(a), b)
                return np.reshape(rows, (*a.shape[:-1], b.shape[-1]))
            if a.ndim < 2 or b.ndim < 2:
                return matmul(_dense(a), _dense(b))
            return product(a, b)
        except (AttributeError, ValueError) as error:
            raise _refusal(a, b) from error

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        da = db = None
        if a.ndim == 1 or b.ndim == 1:
            return _vector_backward(ctx, g, a, b)
        if b.ndim == 2 and a.ndim > 2:
            rows = _rows(g)
            if ctx.need[0]:
                da = np.reshape(product(rows, np.swapaxes(conj(b), 0, 1)), (*g.shape[:-1], b.shape[0]))
            if ctx.need[1]:
                db = product(np.swapaxes(conj(_rows(a)), 0, 1), rows, _place(ctx, g))
            return da, db
        if ctx.need[0]:
            if a.ndim == 2 and b.ndim > 2:  # summed over the batch within one product
                da = product(_columns(g), np.swapaxes(conj(_columns(b)), 0, 1))
            else:
                da = product(g, np.swapaxes(conj(b), -1, -2))
        if ctx.need[1]:
            db = product(np.swapaxes(conj(a), -1, -2), g)
        return da, db


def _vector_backward(ctx: Context, g: Any, a: Any, b: Any) -> Gradients:
    """Treat vectors as matrices with one row or column; sum over batch dims."""
    a2 = np.expand_dims(a, 0) if a.ndim == 1 else a
    b2 = np.expand_dims(b, 1) if b.ndim == 1 else b
    g = _dense(g)
    if a.ndim == 1:
        g = np.expand_dims(g, -2 if b.ndim > 1 else -1)
    if b.ndim == 1:
        g = np.expand_dims(g, -1)
    da = product(g, np.swapaxes(conj(b2), -1, -2)) if ctx.need[0] else None
    db = product(np.swapaxes(conj(a2), -1, -2), g) if ctx.need[1] else None
    if da is not None and a.ndim == 1:
        da = np.sum(_rows(da), axis=0)
    if db is not None and b.ndim == 1:
        db = np.sum(_rows(np.reshape(db, db.shape[:-1])), axis=0)
    return da, db


class Linear(Function):
    """``x @ weight.T + bias``, the weight of shape (out, in)."""

    signature = "...k,nk,n->...n"
    reduces = "sum"
    linear = "each"
    addends = (2,)
    accumulates = True
    precision = "narrow"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array, bias: Array | None) -> Array:
        ctx.save(x if ctx.need[1] else None, weight if ctx.need[0] else None)
        rows = _rows(x)
        out = matmul(rows, np.swapaxes(weight, 0, 1))
        if bias is not None:
            if bias.dtype == out.dtype:
                out += bias
            else:
                out = out + bias
        return np.reshape(out, (*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight = ctx.saved
        rows = _rows(g)
        dx = dweight = dbias = None
        if ctx.need[0]:
            dx = np.reshape(matmul(rows, conj(weight)), (*g.shape[:-1], weight.shape[1]))
        if ctx.need[1]:
            inputs = conj(_rows(x))
            dweight = matmul(np.swapaxes(rows, 0, 1), inputs, _place(ctx, g))
        if ctx.need[2]:
            dbias = column_sum(rows)
        return dx, dweight, dbias


def product(a: Any, b: Any, out: Any = None) -> Any:
    """Return ``a @ b`` for operands of at least two dims, around the products that NumPy does slowly.

    Parameters
    ----------
    a : array or Tensor, shape (..., m, k)
    b : array or Tensor, shape (..., k, n)
    out : array, shape (..., m, n), optional
        Where to put the result.
    """
    if a.shape[-1] == 1 and b.shape[-2] == 1:  # an outer product, for which NumPy does not ask BLAS
        return np.multiply(a, b, out=out)
    if (
        a.dtype.kind in "iu"
        and b.dtype.kind in "iu"
        and type(a) is type(b) is np.ndarray
        and a.size * b.shape[-1] > _LARGE
    ):
        return _of_integers(a, b)
    return matmul(a, b, out)


def _of_integers(a: Array, b: Array) -> Array:
    """Multiply integers in float64 where that is exact: NumPy has no BLAS for them."""
    if b.size and a.shape[-1] * _magnitude(a) * _magnitude(b) < _EXACT:
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        return exact.astype(np.result_type(a, b))
    return np.matmul(a, b)


def _magnitude(a: Array) -> int:
    return max(abs(int(np.min(a))), abs(int(np.max(a))))


def _dense(a: Any) -> Any:
    """Copy a vector that is reversed, or one number repeated: NumPy would not give it to BLAS."""
    if type(a) is np.ndarray and a.ndim == 1 and a.strides[0] <= 0:
        return a.copy()
    return a


def _place(ctx: Context, g: Any) -> Any:
    """Return the array for the weight's gradient, unless that has to become real first."""
    out = ctx.into[1]
    return out if out is None or out.dtype == g.dtype else None


def _rows(a: Any) -> Any:
    """Merge all dims but the last; written out, since -1 is ambiguous where the last has size 0."""
    return np.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))


def _columns(a: Any) -> Any:
    """Merge all dims but the last but one, which comes first."""
    moved = np.moveaxis(a, -2, 0)
    return np.reshape(moved, (a.shape[-2], math.prod(moved.shape[1:])))


def _refusal(a: Any, b: Any) -> ShapeError:
    """Say why two operands have no matrix product."""
    shapes = np.shape(a), np.shape(b)
    for which, shape in enumerate(shapes):
        if not shape:
            return ShapeError(
                f"matmul: input {which} has no dims, and wanted at least one; "
                f"got shapes {shapes[0]} and {shapes[1]}. Multiply by a number with *"
            )
    left, right = shapes[0][-1], shapes[1][-2 if len(shapes[1]) > 1 else -1]
    if left != right:
        why = (
            f"the last dim of the first has size {left}, and {'dim -2' if len(shapes[1]) > 1 else 'the dim'} "
            f"of the second has size {right}; they must be equal"
        )
    else:
        why = f"the batch dims {shapes[0][:-2]} and {shapes[1][:-2]} do not broadcast"
    return ShapeError(f"matmul: cannot multiply shapes {shapes[0]} and {shapes[1]}: {why}")
