"""Our kernels alone, writing into arrays that are there: NumPy's ufuncs with ``out=``, and compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from shardwise.backend.kernels import (
    activation_cpu,
    bias_cpu,
    dropout_cpu,
    embedding_cpu,
    norm_cpu,
    softmax_cpu,
)
from shardwise.backend.kernels.jit import Fused
from shardwise.backend.kernels.total import sum_over

__all__ = ["OURS"]

Thunk = Callable[[], object]


def _loops(*modules: ModuleType) -> dict[str, Fused]:
    """Return the compiled loops of modules by name; they allocate nothing of their arguments' size."""
    named = [(name.lstrip("_"), value) for module in modules for name, value in vars(module).items()]
    return {name: value for name, value in named if isinstance(value, Fused)}


_POINTWISE, _SOFTMAX, _NORM = map(_loops, (activation_cpu, softmax_cpu, norm_cpu))
_BIAS, _DROPOUT, _EMBEDDING = map(_loops, (bias_cpu, dropout_cpu, embedding_cpu))


def _ufunc(function: Callable[..., object]) -> Callable[..., Thunk]:
    def make(*arrays: Any) -> Thunk:
        out = np.empty_like(arrays[0])
        return lambda: function(*arrays, out=out)

    return make


def _unary(loop: Fused) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        out = np.empty_like(x)
        return lambda: loop(x.reshape(-1), out.reshape(-1))

    return make


def _with_gradient(loop: Fused) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        g, out = np.ones_like(x), np.empty_like(x)
        return lambda: loop(g.reshape(-1), x.reshape(-1), out.reshape(-1))

    return make


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


def _sum(*dims: int) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        return lambda: sum_over.fused(x, dims)  # whose result is small

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


def _dropout(x: Any) -> Thunk:
    y, mask = np.empty_like(x), np.empty(x.shape, np.bool_)
    threshold, scale = int(0.1 * 2**32), 1 / 0.9
    return lambda: _DROPOUT["forward"](
        x.reshape(-1), y.reshape(-1), mask.reshape(-1), 1, 2, 3, 4, 0, threshold, scale
    )


def _dropout_backward(x: Any) -> Thunk:
    dx, mask = np.empty_like(x), np.random.default_rng(0).random(x.shape) > 0.1
    return lambda: _DROPOUT["backward"](x.reshape(-1), mask.reshape(-1), dx.reshape(-1), 1 / 0.9)


def _embedding_backward(index: Any, weight: Any) -> Thunk:
    g, total = np.ones((len(index), weight.shape[1]), weight.dtype), np.zeros_like(weight)
    return lambda: _EMBEDDING["scatter_rows"](g, index, total)


def _add_row(x: Any, row: Any) -> Thunk:
    out = np.empty_like(x)
    return lambda: _BIAS["add_row"](x, row, out)


def _product(a: Any, b: Any) -> Thunk:
    out = np.matmul(a, b)
    return lambda: np.matmul(a, b, out=out)


OURS: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("add", "forward"): _ufunc(np.add),
    ("mul", "forward"): _ufunc(np.multiply),
    ("mul by a number", "forward"): _ufunc(lambda x, out: np.multiply(x, 1.5, out=out)),
    ("add a row", "forward"): _add_row,
    ("exp", "forward"): _ufunc(np.exp),
    ("tanh", "forward"): _ufunc(np.tanh),
    ("erf", "forward"): _unary(_POINTWISE["erf"]),
    ("gelu", "forward"): _unary(_POINTWISE["gelu_forward"]),
    ("gelu", "backward"): _with_gradient(_POINTWISE["gelu_backward"]),
    ("gelu tanh", "forward"): _unary(_POINTWISE["gelu_tanh_forward"]),
    ("gelu tanh", "backward"): _with_gradient(_POINTWISE["gelu_tanh_backward"]),
    ("sum", "forward"): _sum(0, 1),
    ("sum(0)", "forward"): _sum(0),
    ("sum(-1)", "forward"): _sum(1),
    ("clone", "forward"): _ufunc(lambda x, out: np.copyto(out, x)),
    ("softmax", "forward"): _rows(_SOFTMAX["softmax_forward"]),
    ("softmax", "backward"): _rows_with_gradient(_SOFTMAX["softmax_backward"], _SOFTMAX["softmax_forward"]),
    ("log_softmax", "forward"): _rows(_SOFTMAX["log_softmax_forward"]),
    ("log_softmax", "backward"): _rows_with_gradient(
        _SOFTMAX["log_softmax_backward"], _SOFTMAX["log_softmax_forward"]
    ),
    ("layer_norm", "forward"): _layer_norm,
    ("layer_norm", "backward"): _layer_norm_backward,
    ("dropout", "forward"): _dropout,
    ("dropout", "backward"): _dropout_backward,
    ("embedding", "backward"): _embedding_backward,
    ("product", "forward"): _product,
}
"""By operation and direction: takes the operation's inputs, and makes the kernel something to call."""
