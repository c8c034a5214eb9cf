"""Gated units: one half of the input lets the other through."""

from __future__ import annotations

from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.kernels.activation.gate import (
    glu_backward,
    glu_forward,
    silu_gate_backward,
    silu_gate_forward,
    swiglu_backward,
    swiglu_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Glu", "SiluGate", "Swiglu"]

_LETTERS = "abcdefghijklmnopqrstuvw"


def _halving(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
    """Give ``"a[b]c->a[z]c"`` for a dim of which half is left."""
    ndim = len(shapes[0])
    dim = params.get("dim", -1) % ndim
    before, after = _LETTERS[:dim], _LETTERS[dim + 1 : ndim]
    return f"{before}[{_LETTERS[dim]}]{after}->{before}[z]{after}"


class Glu(Function):
    """``a * sigmoid(b)`` for the halves `a` and `b` along `dim` (Dauphin et al. 2017)."""

    signature = _halving

    @staticmethod
    def forward(ctx: Context, x: Array, dim: int) -> Array:
        ctx.dim = dim
        ctx.save(x)
        return glu_forward(x, dim)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (glu_backward(g, x, ctx.dim),)


class Swiglu(Function):
    """``silu(a) * b`` for the halves `a` and `b` of the last dim (Shazeer 2020)."""

    signature = _halving

    @staticmethod
    def forward(ctx: Context, x: Array) -> Array:
        ctx.save(x)
        return swiglu_forward(x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (x,) = ctx.saved
        return (swiglu_backward(g, x),)


class SiluGate(Function):
    """``silu(gate) * x``, of two tensors of one shape."""

    signature = "*"

    @staticmethod
    def forward(ctx: Context, gate: Array, x: Array) -> Array:
        ctx.save(gate, x)
        return silu_gate_forward(gate, x)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        gate, x = ctx.saved
        dgate = silu_gate_backward(g, gate, x) if ctx.need[0] else None
        return dgate, silu_gate_forward(gate, g) if ctx.need[1] else None
