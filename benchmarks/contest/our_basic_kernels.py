"""Our kernels of elementwise functions, sums and rearrangements, writing into arrays that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contest.our_loops import Thunk, loops
from shardwise.backend.kernels.activation import (
    activation_cpu,
    rectifier_cpu,
    silu_cpu,
    smooth_cpu,
)
from shardwise.backend.kernels.jit import Fused
from shardwise.backend.kernels.memory import transposition_cpu
from shardwise.backend.kernels.pointwise import bias_cpu, casting_cpu, choice_cpu
from shardwise.backend.kernels.pointwise.pointwise_cpu import Pointwise
from shardwise.backend.kernels.reduction import running_extreme_cpu, scan_cpu, top, total

__all__ = ["OUR_BASIC"]

_ACTIVATION, _BIAS, _CASTING = map(loops, (activation_cpu, bias_cpu, casting_cpu))
_SCAN, _EXTREME, _TRANSPOSITION = map(loops, (scan_cpu, running_extreme_cpu, transposition_cpu))


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


def _pointwise(function: Pointwise, kinds: str, *numbers: float, gradient: bool = False) -> Any:
    """Run over the inputs, or over a gradient and the first one."""

    def make(*arrays: Any) -> Thunk:
        arrays = (np.ones_like(arrays[0]), arrays[0]) if gradient else arrays
        floats = next(x for x in arrays if x.dtype == np.float32)
        out, loop = np.empty_like(floats).reshape(-1), function.loop(kinds, floats.dtype)
        flat = [x.reshape(-1) for x in arrays]
        return lambda: loop(out, *flat, *numbers)

    return make


def _where(mask: Any, a: Any, b: Any) -> Thunk:
    return _pointwise(choice_cpu.choose, "ffm")(a, b, mask)  # type: ignore[no-any-return]


def _over(kernel: Any, *dims: int) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        return lambda: kernel.fused(x, dims)  # whose result is small

    return make


def _scan(name: str) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        out = np.empty_like(x)
        return lambda: _SCAN[f"{name}.rows"](x, out)

    return make


def _cummax(x: Any) -> Thunk:
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    return lambda: _EXTREME["largest.single_rows"](x, values, indices)


def _add_row(x: Any, row: Any) -> Thunk:
    out = np.empty_like(x)
    return lambda: _BIAS["add_row"](x, row, out)


def _transposed(x: Any) -> Thunk:
    words, out = x.view(np.uint32)[None], np.empty((1, *x.shape[::-1]), np.uint32)
    return lambda: _TRANSPOSITION["transposed"](words, out)


def _to_16_bits(loop: Fused) -> Callable[..., Thunk]:
    def make(x: Any) -> Thunk:
        out = np.empty(x.size, np.uint16)
        return lambda: loop(x.reshape(-1), out)

    return make


OUR_BASIC: dict[tuple[str, str], Callable[..., Thunk]] = {
    ("add", "forward"): _ufunc(np.add),
    ("mul", "forward"): _ufunc(np.multiply),
    ("mul by a number", "forward"): _ufunc(lambda x, out: np.multiply(x, 1.5, out=out)),
    ("add a row", "forward"): _add_row,
    ("where", "forward"): _where,
    ("masked_fill", "forward"): _pointwise(choice_cpu.fill, "fmn", 0.0),
    ("exp", "forward"): _ufunc(np.exp),
    ("tanh", "forward"): _ufunc(np.tanh),
    ("tanh", "backward"): _pointwise(smooth_cpu.tanh_backward, "ff", gradient=True),
    ("sigmoid", "forward"): _pointwise(smooth_cpu.sigmoid_forward, "f"),
    ("sigmoid", "backward"): _pointwise(smooth_cpu.sigmoid_backward, "ff", gradient=True),
    ("erf", "forward"): _unary(_ACTIVATION["erf"]),
    ("relu", "forward"): _pointwise(rectifier_cpu.relu_forward, "f"),
    ("relu", "backward"): _pointwise(rectifier_cpu.threshold_backward, "ffn", 0.0, gradient=True),
    ("leaky_relu", "forward"): _pointwise(rectifier_cpu.leaky_relu_forward, "fn", 0.01),
    ("leaky_relu", "backward"): _pointwise(rectifier_cpu.leaky_relu_backward, "ffn", 0.01, gradient=True),
    ("silu", "forward"): _pointwise(silu_cpu.silu_forward, "f"),
    ("silu", "backward"): _pointwise(silu_cpu.silu_backward, "ff", gradient=True),
    ("gelu", "forward"): _unary(_ACTIVATION["gelu_forward"]),
    ("gelu", "backward"): _with_gradient(_ACTIVATION["gelu_backward"]),
    ("gelu tanh", "forward"): _unary(_ACTIVATION["gelu_tanh_forward"]),
    ("gelu tanh", "backward"): _with_gradient(_ACTIVATION["gelu_tanh_backward"]),
    ("sum", "forward"): _over(total.sum_over, 0, 1),
    ("sum(0)", "forward"): _over(total.sum_over, 0),
    ("sum(-1)", "forward"): _over(total.sum_over, 1),
    ("nansum", "forward"): _over(total.sum_of_numbers_over, 0, 1),
    ("prod(-1)", "forward"): _over(total.product_over, 1),
    ("amax(-1)", "forward"): _over(total.largest_over, 1),
    ("topk(-1)", "forward"): lambda x: lambda: top.top_of_rows.fused(x, min(x.shape[1], 50), True),
    ("cumsum", "forward"): _scan("sums"),
    ("cumprod", "forward"): _scan("products"),
    ("cummax", "forward"): _cummax,
    ("clone", "forward"): _ufunc(lambda x, out: np.copyto(out, x)),
    ("transpose", "forward"): _transposed,
    ("to float16", "forward"): _to_16_bits(_CASTING["to_float16"]),
    ("to bfloat16", "forward"): _to_16_bits(_CASTING["to_bfloat16"]),
}
"""By operation and direction: takes the operation's inputs, and makes the kernel something to call."""
