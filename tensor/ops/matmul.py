"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.reduction import column_sum
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Linear", "MatMul"]


class MatMul(Function):
    """``a @ b`` by NumPy's rules: batch dims broadcast, one-dimensional operands are vectors."""

    broadcasts = True

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
        if b.ndim == 2 and a.ndim > 2:  # one large product instead of many small ones
            rows = np.matmul(_rows(a), b)
            return np.reshape(rows, (*a.shape[:-1], b.shape[-1]))
        return np.matmul(a, b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        a, b = ctx.saved
        da = db = None
        if a.ndim == 1 or b.ndim == 1:
            return _vector_backward(ctx, g, a, b)
        if b.ndim == 2 and a.ndim > 2:
            rows, out = _rows(g), ctx.into[1]
            if ctx.need[0]:
                da = np.reshape(np.matmul(rows, np.swapaxes(b, 0, 1)), a.shape)
            if ctx.need[1]:
                db = np.matmul(np.swapaxes(_rows(a), 0, 1), rows, out=out)
            return da, db
        if ctx.need[0]:
            da = np.matmul(g, np.swapaxes(b, -1, -2))
        if ctx.need[1]:
            db = np.matmul(np.swapaxes(a, -1, -2), g)
        return da, db


def _vector_backward(ctx: Context, g: Any, a: Any, b: Any) -> Gradients:
    """Treat vectors as matrices with one row or column; the engine sums over batch dims."""
    a2 = np.expand_dims(a, 0) if a.ndim == 1 else a
    b2 = np.expand_dims(b, 1) if b.ndim == 1 else b
    if a.ndim == 1:
        g = np.expand_dims(g, -2 if b.ndim > 1 else -1)
    if b.ndim == 1:
        g = np.expand_dims(g, -1)
    da = np.matmul(g, np.swapaxes(b2, -1, -2)) if ctx.need[0] else None
    db = np.matmul(np.swapaxes(a2, -1, -2), g) if ctx.need[1] else None
    if da is not None and a.ndim == 1:
        da = np.sum(_rows(da), axis=0)
    if db is not None and b.ndim == 1:
        db = np.sum(_rows(np.reshape(db, db.shape[:-1])), axis=0)
    return da, db


class Linear(Function):
    """``x @ weight.T + bias``, the weight of shape (out, in)."""

    signature = "...k,nk,n->...n"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array, bias: Array | None) -> Array:
        ctx.save(x if ctx.need[1] else None, weight if ctx.need[0] else None)
        rows = _rows(x)
        out = np.matmul(rows, np.swapaxes(weight, 0, 1))
        if bias is not None:
            out += bias
        return np.reshape(out, (*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight = ctx.saved
        rows = _rows(g)
        dx = dweight = dbias = None
        if ctx.need[0]:
            dx = np.reshape(np.matmul(rows, weight), (*g.shape[:-1], weight.shape[1]))
        if ctx.need[1]:
            inputs = _rows(x)
            dweight = np.matmul(np.swapaxes(rows, 0, 1), inputs, out=ctx.into[1])
        if ctx.need[2]:
            dbias = column_sum(rows)
        return dx, dweight, dbias


def _rows(a: Array) -> Array:
    """Merge all dims but the last; written out, since -1 is ambiguous where the last has size 0."""
    return np.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
