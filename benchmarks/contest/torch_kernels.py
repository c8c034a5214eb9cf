"""The peer's kernels alone, by ``out=`` where it has that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["TORCH"]

Thunk = Callable[[], object]
_aten = torch.ops.aten


def _out(function: Callable[..., object], **options: object) -> Callable[..., Thunk]:
    """Let a function write into a result that it has made before."""

    def make(*arrays: Any) -> Thunk:
        tensors = [torch.from_numpy(array) for array in arrays]
        out = function(*tensors, **options)
        return lambda: function(*tensors, **options, out=out)

    return make


def _aten_out(name: str, *rest: object, **options: object) -> Callable[..., Thunk]:
    """As `_out`, of a function that has ``out`` only where Python does not show it."""

    def make(*arrays: Any) -> Thunk:
        tensors = [torch.from_numpy(array) for array in arrays]
        out = torch.empty_like(tensors[0])
        function = getattr(_aten, name).out
        return lambda: function(*tensors, *rest, **options, out=out)

    return make


def _backward(
    function: Any, *rest: object, of: Any = None, out: str = "grad_input", **options: object
) -> Any:
    """Let a backward write into an array: of the gradient and the input, or of the result of `of`."""

    def make(x: Any) -> Thunk:
        saved = torch.from_numpy(x) if of is None else of(torch.from_numpy(x), -1)
        g, written = torch.ones_like(saved), {out: torch.empty_like(saved)}
        return lambda: function(g, saved, *rest, **options, **written)

    return make


def _layer_norm(x: Any, w: Any, b: Any) -> Thunk:
    x, w, b = (torch.from_numpy(a) for a in (x, w, b))
    y, mean, rstd = _aten.native_layer_norm(x, w.shape, w, b, 1e-5)
    return lambda: _aten.native_layer_norm.out(x, w.shape, w, b, 1e-5, out0=y, out1=mean, out2=rstd)


def _layer_norm_backward(x: Any, w: Any, b: Any) -> Thunk:
    x, w, b = (torch.from_numpy(a) for a in (x, w, b))
    _, mean, rstd = _aten.native_layer_norm(x, w.shape, w, b, 1e-5)
    g, dx, dw, db = torch.ones_like(x), torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    every = [True] * 3
    return lambda: _aten.native_layer_norm_backward.out(
        g, x, w.shape, mean, rstd, w, b, every, out0=dx, out1=dw, out2=db
    )


def _dropout(x: Any) -> Thunk:
    x = torch.from_numpy(x)
    y, mask = _aten.native_dropout(x, 0.1, True)
    return lambda: _aten.native_dropout.out(x, 0.1, True, out0=y, out1=mask)


def _dropout_backward(x: Any) -> Thunk:
    x = torch.from_numpy(x)
    _, mask = _aten.native_dropout(x, 0.1, True)
    dx = torch.empty_like(x)
    return lambda: _aten.native_dropout_backward.out(x, mask, 1 / 0.9, out=dx)


def _embedding_backward(index: Any, weight: Any) -> Thunk:
    index, weight = torch.from_numpy(index), torch.from_numpy(weight)
    g, total = torch.ones(len(index), weight.shape[1]), torch.zeros_like(weight)
    return lambda: total.index_add_(0, index, g)


def _sum(*dims: int) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        tensor = torch.from_numpy(x)
        out = torch.sum(tensor, dims)
        return lambda: torch.sum(tensor, dims, out=out)

    return make


TORCH: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("add", "forward"): _out(torch.add),
    ("mul", "forward"): _out(torch.mul),
    ("mul by a number", "forward"): _out(lambda x, **out: torch.mul(x, 1.5, **out)),
    ("add a row", "forward"): _out(torch.add),
    ("exp", "forward"): _out(torch.exp),
    ("tanh", "forward"): _out(torch.tanh),
    ("erf", "forward"): _out(torch.erf),
    ("gelu", "forward"): _aten_out("gelu"),
    ("gelu", "backward"): _backward(_aten.gelu_backward.grad_input),
    ("gelu tanh", "forward"): _aten_out("gelu", approximate="tanh"),
    ("gelu tanh", "backward"): _backward(_aten.gelu_backward.grad_input, approximate="tanh"),
    ("sum", "forward"): _sum(0, 1),
    ("sum(0)", "forward"): _sum(0),
    ("sum(-1)", "forward"): _sum(1),
    ("clone", "forward"): _aten_out("clone"),
    ("softmax", "forward"): _aten_out("_softmax", -1, False),
    ("softmax", "backward"): _backward(_aten._softmax_backward_data.out, -1, torch.float32, of=torch.softmax),
    ("log_softmax", "forward"): _aten_out("_log_softmax", -1, False),
    ("log_softmax", "backward"): _backward(
        _aten._log_softmax_backward_data.out, -1, torch.float32, of=torch.log_softmax, out="out"
    ),
    ("layer_norm", "forward"): _layer_norm,
    ("layer_norm", "backward"): _layer_norm_backward,
    ("dropout", "forward"): _dropout,
    ("dropout", "backward"): _dropout_backward,
    ("embedding", "backward"): _embedding_backward,
    ("product", "forward"): _out(torch.matmul),
}
"""As `OURS` of ``our_kernels``."""
