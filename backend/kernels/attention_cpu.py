"""Attention for NumPy arrays: BLAS on views and a fused softmax; the formulas are in ``attention.py``.

Under a causal mask the rows are walked in blocks, and each block multiplies only the keys that some row
of it sees: about half of the work for long sequences.
"""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.attention import check_attention
from shardwise.backend.kernels.contiguous import contiguous
from shardwise.backend.kernels.jit import boolean, float64, fused, read, write
from shardwise.backend.kernels.math_cpu import exp, row_maximum

__all__ = ["attention_backward", "attention_forward"]

_BLOCK = 128  # rows; smaller ones give BLAS too little to do


def attention_forward(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    check_attention(q, k, v)
    if not scale > 0.0:
        # The softmax below scales after it took the maximum, which is right for positive scales only.
        q, scale = q * q.dtype.type(scale), 1.0
    q, k, v = _for_blas(q), _for_blas(k), _for_blas(v)
    t, s = q.shape[-2], k.shape[-2]
    leading = q.shape[:-2]
    p = np.empty((*leading, t, s), q.dtype)
    y = _heads_inside((*leading, t, v.shape[-1]), q.dtype)
    keys = np.swapaxes(k, -1, -2)
    for rows, seen in _blocks(t, s, causal):
        np.matmul(q[..., rows, :], keys[..., :seen], out=p[..., rows, :seen])
    _softmax_(_matrices(p), scale, causal)
    for rows, seen in _blocks(t, s, causal):
        np.matmul(p[..., rows, :seen], v[..., :seen, :], out=y[..., rows, :])
    return y, p


def attention_backward(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    p: Array | None,
    y: Array | None,
    scale: float,
    causal: bool,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    check_attention(q, k, v)
    if g.shape != (*q.shape[:-1], v.shape[-1]):
        raise ShapeError(
            f"attention_backward: the gradient has shape {g.shape}, and the output "
            f"{(*q.shape[:-1], v.shape[-1])}; wanted the same."
        )
    if p is None:
        p = attention_forward(q, k, v, scale, causal)[1]
    g, q, k, v, p = _for_blas(g), _for_blas(q), _for_blas(k), _for_blas(v), contiguous(p)
    t, s = p.shape[-2:]
    dq, dk, dv = out or (np.empty(x.shape, x.dtype) for x in (q, k, v))
    ds = np.empty_like(p)
    values = np.swapaxes(v, -1, -2)
    for rows, seen in _blocks(t, s, causal):
        np.matmul(g[..., rows, :], values[..., :seen], out=ds[..., rows, :seen])
    _softmax_backward_(_matrices(ds), _matrices(p), scale, causal)
    for rows, seen in _blocks(t, s, causal):
        np.matmul(ds[..., rows, :seen], k[..., :seen, :], out=dq[..., rows, :])
    for keys, first in _key_blocks(t, s, causal):
        weights, scores = p[..., first:, keys], ds[..., first:, keys]
        np.matmul(np.swapaxes(weights, -1, -2), g[..., first:, :], out=dv[..., keys, :])
        np.matmul(np.swapaxes(scores, -1, -2), q[..., first:, :], out=dk[..., keys, :])
    return dq, dk, dv


def _blocks(t: int, s: int, causal: bool) -> list[tuple[slice, int]]:
    """Blocks of queries, each with the number of keys that its last row sees."""
    if not causal:
        return [(slice(0, t), s)]
    return [
        (slice(start, min(start + _BLOCK, t)), min(start + _BLOCK, t, s)) for start in range(0, t, _BLOCK)
    ]


def _key_blocks(t: int, s: int, causal: bool) -> list[tuple[slice, int]]:
    """Blocks of keys, each with the first query that sees its first key."""
    if not causal:
        return [(slice(0, s), 0)]
    return [(slice(start, min(start + _BLOCK, s)), min(start, t)) for start in range(0, s, _BLOCK)]


def _for_blas(x: Array) -> Array:
    """`x`, copied only if NumPy would not hand its matrices to BLAS as they are."""
    row, column = x.strides[-2:]
    if column == x.itemsize and row >= x.shape[-1] * x.itemsize and row % x.itemsize == 0 and x.flags.aligned:
        return x
    return np.require(x, requirements=["C", "A"])


def _heads_inside(shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """An empty array of `shape` (..., heads, t, e) that is contiguous as (..., t, heads, e)."""
    if len(shape) < 3:
        return np.empty(shape, dtype)
    *batch, heads, t, features = shape
    return np.swapaxes(np.empty((*batch, t, heads, features), dtype), -3, -2)


def _matrices(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


@fused(lambda real: (write(real, 3), float64, boolean))
def _softmax_(x: Array, scale: float, causal: bool) -> None:
    """Softmax of ``x * scale`` over the keys that are seen, in place; 0 for the others."""
    real = x.dtype.type
    factor = real(scale)
    count, queries, keys = x.shape
    for b in range(count):
        for i in range(queries):
            seen = min(i + 1, keys) if causal else keys
            row = x[b, i]
            head = row[:seen]
            highest = row_maximum(head, seen)
            total = real(0)
            for j in range(seen):
                e = exp((head[j] - highest) * factor)
                head[j] = e
                total += e
            share = real(1) / total
            for j in range(seen):
                head[j] *= share
            row[seen:] = real(0)


@fused(lambda real: (write(real, 3), read(real, 3), float64, boolean))
def _softmax_backward_(g: Array, p: Array, scale: float, causal: bool) -> None:
    """The gradient of the scores from that of the weights `p`, in place on `g`."""
    real = g.dtype.type
    factor = real(scale)
    count, queries, keys = g.shape
    for b in range(count):
        for i in range(queries):
            seen = min(i + 1, keys) if causal else keys
            row, weights = g[b, i, :seen], p[b, i, :seen]
            along = real(0)
            for j in range(seen):
                along += row[j] * weights[j]
            for j in range(seen):
                row[j] = weights[j] * (row[j] - along) * factor
            g[b, i, seen:] = real(0)
