"""The peer's kernels of elementwise functions, sums and rearrangements, by ``out=`` where it has that.

Functions whose ``out=`` is made by copying their result, `relu` and `masked_fill`, are taken by another name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["TORCH_BASIC", "Thunk", "aten_backward", "aten_out", "out"]

Thunk = Callable[[], object]
_aten = torch.ops.aten


def out(function: Callable[..., object], *rest: object, **options: object) -> Callable[..., Thunk]:
    """Let a function write into a result, or results, that it has made before."""

    def make(*arrays: Any) -> Thunk:
        tensors = [torch.from_numpy(array) for array in arrays]
        made: Any = function(*tensors, *rest, **options)
        results = tuple(made) if isinstance(made, tuple) else made
        return lambda: function(*tensors, *rest, **options, out=results)

    return make


def aten_out(name: str, *rest: object, **options: object) -> Callable[..., Thunk]:
    """As `out`, of a function that has ``out`` only where Python does not show it."""

    def make(*arrays: Any) -> Thunk:
        tensors = [torch.from_numpy(array) for array in arrays]
        result = torch.empty_like(tensors[0])
        function = getattr(_aten, name).out
        return lambda: function(*tensors, *rest, **options, out=result)

    return make


def aten_backward(
    function: Any, *rest: object, of: Any = None, out: str = "grad_input", **options: object
) -> Any:
    """Let a backward write into an array: of the gradient and the input, or of the result of `of`."""

    def make(x: Any) -> Thunk:
        saved = torch.from_numpy(x) if of is None else of(torch.from_numpy(x))
        g, written = torch.ones_like(saved), {out: torch.empty_like(saved)}
        return lambda: function(g, saved, *rest, **options, **written)

    return make


def _where(mask: Any, a: Any, b: Any) -> Thunk:
    mask, a, b = (torch.from_numpy(x) for x in (mask, a, b))
    result = torch.empty_like(a)
    return lambda: torch.where(mask, a, b, out=result)


def _masked_fill(x: Any, mask: Any) -> Thunk:
    x, mask = torch.from_numpy(x.copy()), torch.from_numpy(mask)
    return lambda: x.masked_fill_(mask, 0.0)


def _sum(*dims: int, of: Any = torch.sum) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        tensor = torch.from_numpy(x)
        result = of(tensor, dims)
        return lambda: of(tensor, dims, out=result)

    return make


def _topk(x: Any) -> Thunk:
    tensor, k = torch.from_numpy(x), min(x.shape[1], 50)
    results = tuple(torch.topk(tensor, k, -1))
    return lambda: torch.topk(tensor, k, -1, out=results)


def _transposed(x: Any) -> Thunk:
    turned = torch.from_numpy(x).t()
    result = turned.contiguous()
    return lambda: result.copy_(turned)


def _to(dtype: torch.dtype) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        tensor = torch.from_numpy(x)
        result = tensor.to(dtype)
        return lambda: result.copy_(tensor)

    return make


TORCH_BASIC: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("add", "forward"): out(torch.add),
    ("mul", "forward"): out(torch.mul),
    ("mul by a number", "forward"): out(torch.mul, 1.5),
    ("add a row", "forward"): out(torch.add),
    ("where", "forward"): _where,
    ("masked_fill", "forward"): _masked_fill,
    ("exp", "forward"): out(torch.exp),
    ("tanh", "forward"): out(torch.tanh),
    ("tanh", "backward"): aten_backward(_aten.tanh_backward.grad_input),
    ("sigmoid", "forward"): out(torch.sigmoid),
    ("sigmoid", "backward"): aten_backward(_aten.sigmoid_backward.grad_input),
    ("erf", "forward"): out(torch.erf),
    ("relu", "forward"): out(torch.clamp_min, 0.0),
    ("relu", "backward"): aten_backward(_aten.threshold_backward.grad_input, 0.0),
    ("leaky_relu", "forward"): aten_out("leaky_relu", 0.01),
    ("leaky_relu", "backward"): aten_backward(_aten.leaky_relu_backward.grad_input, 0.01, False),
    ("silu", "forward"): aten_out("silu"),
    ("silu", "backward"): aten_backward(_aten.silu_backward.grad_input),
    ("gelu", "forward"): aten_out("gelu"),
    ("gelu", "backward"): aten_backward(_aten.gelu_backward.grad_input),
    ("gelu tanh", "forward"): aten_out("gelu", approximate="tanh"),
    ("gelu tanh", "backward"): aten_backward(_aten.gelu_backward.grad_input, approximate="tanh"),
    ("sum", "forward"): _sum(0, 1),
    ("sum(0)", "forward"): _sum(0),
    ("sum(-1)", "forward"): _sum(1),
    ("nansum", "forward"): _sum(0, 1, of=torch.nansum),
    ("prod(-1)", "forward"): out(torch.prod, -1),
    ("amax(-1)", "forward"): _sum(1, of=torch.amax),
    ("topk(-1)", "forward"): _topk,
    ("cumsum", "forward"): out(torch.cumsum, -1),
    ("cumprod", "forward"): out(torch.cumprod, -1),
    ("cummax", "forward"): out(torch.cummax, -1),
    ("clone", "forward"): aten_out("clone"),
    ("transpose", "forward"): _transposed,
    ("to float16", "forward"): _to(torch.float16),
    ("to bfloat16", "forward"): _to(torch.bfloat16),
}
"""As `OURS` of ``our_kernels``."""
