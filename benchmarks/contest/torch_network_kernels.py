"""The peer's kernels of norms, losses, dropout, attention, pooling and products, by ``out=`` if it has that.

Root-mean-square norms, the backward of batch norm and attention have no ``out=``: their cheapest forms make
their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from contest.torch_basic_kernels import Thunk, aten_backward, aten_out, out

__all__ = ["TORCH_NETWORK"]

_aten = torch.ops.aten
_MEAN = 1  # of the ways to reduce a loss


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


def _rms_norm(x: Any, w: Any) -> Thunk:
    x, w = torch.from_numpy(x), torch.from_numpy(w)
    return lambda: _aten.rms_norm(x, w.shape, w, 1e-7)


def _rms_norm_backward(x: Any, w: Any) -> Thunk:
    x, w = (torch.from_numpy(a).requires_grad_() for a in (x, w))
    y = _aten.rms_norm(x, w.shape, w, 1e-7)
    g = torch.ones_like(x)
    return lambda: torch.autograd.grad([y], [x, w], [g], retain_graph=True)


def _batch_norm(x: Any, w: Any, b: Any) -> Thunk:
    x, w, b = (torch.from_numpy(a) for a in (x, w, b))
    given = (x, w, b, None, None, True, 0.1, 1e-5)
    y, mean, rstd = _aten.native_batch_norm(*given)
    return lambda: _aten.native_batch_norm.out(*given, out=y, save_mean=mean, save_invstd=rstd)


def _batch_norm_backward(x: Any, w: Any, b: Any) -> Thunk:
    x, w, b = (torch.from_numpy(a) for a in (x, w, b))
    _, mean, rstd = _aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
    given = (torch.ones_like(x), x, w, None, None, mean, rstd, True, 1e-5, [True] * 3)
    return lambda: _aten.native_batch_norm_backward(*given)  # its out= copies what this makes


def _cross_entropy(x: Any, target: Any) -> Thunk:
    x, target = torch.from_numpy(x), torch.from_numpy(target)
    logs = torch.log_softmax(x, 1)
    loss, weight = _aten.nll_loss_forward(logs, target, None, _MEAN, -100)

    def call() -> None:
        _aten._log_softmax.out(x, 1, False, out=logs)
        _aten.nll_loss_forward.output(logs, target, None, _MEAN, -100, output=loss, total_weight=weight)

    return call


def _cross_entropy_backward(x: Any, target: Any) -> Thunk:
    x, target = torch.from_numpy(x), torch.from_numpy(target)
    logs = torch.log_softmax(x, 1)
    loss, weight = _aten.nll_loss_forward(logs, target, None, _MEAN, -100)
    g, dlogs, dx = torch.ones_like(loss), torch.empty_like(x), torch.empty_like(x)

    def call() -> None:
        given = (g, logs, target, None, _MEAN, -100, weight)
        _aten.nll_loss_backward.grad_input(*given, grad_input=dlogs)
        _aten._log_softmax_backward_data.out(dlogs, logs, 1, torch.float32, out=dx)

    return call


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


def _pooling_backward(x: Any) -> Thunk:
    x = torch.from_numpy(x)
    y, places = _aten.max_pool2d_with_indices(x, [2, 2])
    given = (torch.ones_like(y), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places)
    dx = torch.empty_like(x)
    return lambda: _aten.max_pool2d_with_indices_backward.grad_input(*given, grad_input=dx)


def _attention(q: Any, k: Any, v: Any) -> Thunk:
    q, k, v = (torch.from_numpy(a) for a in (q, k, v))
    return lambda: _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)


def _attention_backward(q: Any, k: Any, v: Any) -> Thunk:
    q, k, v = (torch.from_numpy(a) for a in (q, k, v))
    y, logsumexp = _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    given = (torch.ones_like(y), q, k, v, y, logsumexp, 0.0, True)
    return lambda: _aten._scaled_dot_product_flash_attention_for_cpu_backward(*given)


def _adamw(*parameters: Any) -> Thunk:
    columns = [[torch.from_numpy(x.copy()) for x in parameters] for _ in range(4)]
    steps = [torch.tensor(1.0) for _ in parameters]
    options = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
    flags = {"amsgrad": False, "maximize": False}
    return lambda: _aten._fused_adamw_(*columns, [], steps, **options, **flags)


TORCH_NETWORK: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("softmax", "forward"): aten_out("_softmax", -1, False),
    ("softmax", "backward"): aten_backward(
        _aten._softmax_backward_data.out, -1, torch.float32, of=lambda x: torch.softmax(x, -1)
    ),
    ("log_softmax", "forward"): aten_out("_log_softmax", -1, False),
    ("log_softmax", "backward"): aten_backward(
        *(_aten._log_softmax_backward_data.out, -1, torch.float32),
        of=lambda x: torch.log_softmax(x, -1),
        out="out",
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
    ("product", "forward"): out(torch.matmul),
}
"""As `OURS` of ``our_kernels``."""
