"""Gated units: one half of the input lets the other through."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.silu import silu_backward, silu_forward
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.elementary import Sigmoid
from shardwise.tensor.ops.smooth import Silu

__all__ = ["Glu", "SiluGate", "Swiglu"]

_LETTERS = "abcdefghijklmnopqrstuvw"


def _halving(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->a[z]c"`` for a dim of which half is left."""
    ndim = len(shapes[0])
    dim = params.get("dim", -1) % ndim
    before, after = _LETTERS[:dim], _LETTERS[dim + 1 : ndim]
    return f"{before}[{_LETTERS[dim]}]{after}->{before}[z]{after}"


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    dim %= x.ndim
    half, front = x.shape[dim] // 2, (slice(None),) * dim
    return x[(*front, slice(None, half))], x[(*front, slice(half, None))]


class Glu(Function):
    """``a * sigmoid(b)`` for the halves `a` and `b` along `dim` (Dauphin et al. 2017)."""

    signature = _halving

    @staticmethod
    def forward(ctx: Context, x: Array, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(x)
        a, b = _halves(x, dim)
        return a * Sigmoid.apply(b)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        a, b = _halves(x, ctx.dim)
        s = Sigmoid.apply(b)
        through = g * s
        return (np.concatenate([through, through * a * (1.0 - s)], axis=ctx.dim),)


class Swiglu(Function):
    """``silu(a) * b`` for the halves `a` and `b` of the last dim (Shazeer 2020)."""

    signature = _halving

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        a, b = _halves(x, -1)
        return silu_forward(a) * b

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        a, b = _halves(x, -1)
        return (np.concatenate([silu_backward(g * b, a), g * Silu.apply(a)], axis=-1),)


class SiluGate(Function):
    """``silu(gate) * x``, of two tensors of one shape."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, gate: Array, x: Array) -> Array:
        ctx.save(gate, x)
        return silu_forward(gate) * x

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        gate, x = ctx.saved
        dgate = silu_backward(g * x, gate) if ctx.need[0] else None
        return dgate, g * Silu.apply(gate) if ctx.need[1] else None
