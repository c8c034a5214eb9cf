"""Our kernels of norms, losses, dropout, attention, pooling and products, writing into arrays that are there.

Attention alone makes its results, and so does the peer's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contest.our_loops import Thunk, loops
from shardwise.backend.kernels.attention import attention
from shardwise.backend.kernels.channel import batch_norm_cpu
from shardwise.backend.kernels.jit import Fused
from shardwise.backend.kernels.optimizer.optimizer import update_each
from shardwise.backend.kernels.optimizer.optimizer_formula import adam
from shardwise.backend.kernels.place import embedding_cpu
from shardwise.backend.kernels.random import dropout_cpu
from shardwise.backend.kernels.row import loss_cpu, norm_cpu, rms_norm_cpu, softmax_cpu
from shardwise.backend.kernels.window import pooling_cpu

__all__ = ["OUR_NETWORK"]

_SOFTMAX, _NORM, _RMS, _BATCH = map(loops, (softmax_cpu, norm_cpu, rms_norm_cpu, batch_norm_cpu))
_LOSS, _DROPOUT, _EMBEDDING, _POOLING = map(loops, (loss_cpu, dropout_cpu, embedding_cpu, pooling_cpu))


def _rows(loop: Fused) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        out = np.empty_like(x)
        return lambda: loop(x, out)

    return make


def _rows_with_gradient(loop: Fused, result: Fused) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        y, g, out = np.empty_like(x), np.ones_like(x), np.empty_like(x)
        result(x, y)
        return lambda: loop(g, y, out)

    return make


def _layer_norm(x: Any, w: Any, b: Any) -> Thunk:
    y, mean, rstd = np.empty_like(x), np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    return lambda: _NORM["forward"](x, w, b, 1e-5, y, mean, rstd)


def _layer_norm_backward(x: Any, w: Any, b: Any) -> Thunk:
    g, dx, mean, rstd = (
        np.ones_like(x),
        np.empty_like(x),
        np.empty(len(x), x.dtype),
        np.empty(len(x), x.dtype),
    )
    dw, db = np.empty_like(w), np.empty_like(b)
    _NORM["statistics"](x, 1e-5, mean, rstd)
    return lambda: _NORM["backward"](g, x, w, mean, rstd, dx, dw, db)


def _rms_norm(x: Any, w: Any) -> Thunk:
    y, scale = np.empty_like(x), np.empty(len(x), x.dtype)
    return lambda: _RMS["forward"](x, w, 1e-7, y, scale)


def _rms_norm_backward(x: Any, w: Any) -> Thunk:
    g, y, dx, dw = np.ones_like(x), np.empty_like(x), np.empty_like(x), np.empty_like(w)
    scale = np.empty(len(x), x.dtype)
    _RMS["forward"](x, w, 1e-7, y, scale)
    return lambda: _RMS["backward"](g, x, w, scale, dx, dw)


def _batch_norm(x: Any, w: Any, b: Any) -> Thunk:
    planes = x.reshape(*x.shape[:2], -1)
    y, mean, variance = np.empty_like(planes), np.empty_like(w), np.empty_like(w)
    return lambda: _BATCH["forward"](planes, w, b, 1e-5, y, mean, variance)


def _batch_norm_backward(x: Any, w: Any, b: Any) -> Thunk:
    planes = x.reshape(*x.shape[:2], -1)
    g, dx, dw, db = np.ones_like(planes), np.empty_like(planes), np.empty_like(w), np.empty_like(w)
    mean, variance = np.empty_like(w), np.empty_like(w)
    _BATCH["forward"](planes, w, b, 1e-5, dx, mean, variance)
    return lambda: _BATCH["backward"](g, planes, w, mean, variance, 1e-5, dx, dw, db)


def _cross_entropy(x: Any, target: Any) -> Thunk:
    loss, logsumexp = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    return lambda: _LOSS["forward"](x, target, -100, loss, logsumexp)


def _cross_entropy_backward(x: Any, target: Any) -> Thunk:
    loss, logsumexp, dx = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype), np.empty_like(x)
    g = np.full(len(x), 1.0 / len(x), x.dtype)
    _LOSS["forward"](x, target, -100, loss, logsumexp)
    return lambda: _LOSS["backward"](g, x, target, logsumexp, -100, dx)


def _dropout(x: Any) -> Thunk:
    y, mask = np.empty_like(x), np.empty(x.shape, np.bool_)
    threshold, scale = int(0.1 * 2**32), 1 / 0.9
    row, starts = (1, -1), np.zeros(1, np.int64)
    return lambda: _DROPOUT["forward"](
        x.reshape(row), starts, y.reshape(row), mask.reshape(row), 1, 2, 3, 4, threshold, scale
    )


def _dropout_backward(x: Any) -> Thunk:
    dx, mask = np.empty_like(x), np.random.default_rng(0).random(x.shape) > 0.1
    return lambda: _DROPOUT["backward"](x.reshape(-1), mask.reshape(-1), dx.reshape(-1), 1 / 0.9)


def _embedding_backward(index: Any, weight: Any) -> Thunk:
    g, total = np.ones((len(index), weight.shape[1]), weight.dtype), np.zeros_like(weight)
    return lambda: _EMBEDDING["scatter_rows"](g, index, total)


def _pooling_backward(x: Any) -> Thunk:
    planes = x.reshape(-1, x.shape[2] * x.shape[3])
    windows = tuple(tuple(range(i, i + 2) for i in range(0, n, 2)) for n in x.shape[2:])
    out, places = pooling_cpu.maximum_forward(x, windows)
    g, dx, index = (a.reshape(len(planes), -1) for a in (np.ones_like(out), np.zeros_like(x), places))

    def call() -> None:
        dx.fill(0.0)
        _POOLING["scatter"](g, index, dx)

    return call


def _attention(q: Any, k: Any, v: Any) -> Thunk:
    scale = q.shape[-1] ** -0.5
    return lambda: attention.attention_forward.fused(q, k, v, None, None, scale, True)


def _attention_backward(q: Any, k: Any, v: Any) -> Thunk:
    scale = q.shape[-1] ** -0.5
    y, peak, share = attention.attention_forward(q, k, v, None, None, scale, True)
    g = np.ones_like(y)
    return lambda: attention.attention_backward.fused(g, q, k, v, None, None, y, peak, share, scale, True)


def _adamw(*parameters: Any) -> Thunk:
    columns = [[x.copy() for x in parameters] for _ in range(4)]
    numbers = [(1e-3, 1.0, 0.0, 1.0 - 1e-5, 0.1, 0.999, 1e-3, 1e-8, 1.0)] * len(parameters)
    return lambda: update_each.fused(adam, columns, numbers)


def _product(a: Any, b: Any) -> Thunk:
    out = np.matmul(a, b)
    return lambda: np.matmul(a, b, out=out)


OUR_NETWORK: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("softmax", "forward"): _rows(_SOFTMAX["softmax_forward"]),
    ("softmax", "backward"): _rows_with_gradient(_SOFTMAX["softmax_backward"], _SOFTMAX["softmax_forward"]),
    ("log_softmax", "forward"): _rows(_SOFTMAX["log_softmax_forward"]),
    ("log_softmax", "backward"): _rows_with_gradient(
        _SOFTMAX["log_softmax_backward"], _SOFTMAX["log_softmax_forward"]
    ),
    ("layer_norm", "forward"): _layer_norm,
    ("layer_norm", "backward"): _layer_norm_backward,
    ("rms_norm", "forward"): _rms_norm,
    ("rms_norm", "backward"): _rms_norm_backward,
    ("batch_norm", "forward"): _batch_norm,
    ("batch_norm", "backward"): _batch_norm_backward,
    ("cross_entropy", "forward"): _cross_entropy,
    ("cross_entropy", "backward"): _cross_entropy_backward,
    ("dropout", "forward"): _dropout,
    ("dropout", "backward"): _dropout_backward,
    ("embedding", "backward"): _embedding_backward,
    ("max_pool2d", "backward"): _pooling_backward,
    ("causal attention", "forward"): _attention,
    ("causal attention", "backward"): _attention_backward,
    ("AdamW", "forward"): _adamw,
    ("product", "forward"): _product,
}
"""By operation and direction: takes the operation's inputs, and makes the kernel something to call."""
