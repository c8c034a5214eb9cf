"""Scaled dot-product attention, fused."""

from __future__ import annotations

import math
from typing import Any

from shardwise.backend.array import Array
from shardwise.backend.kernels.attention import attention_backward, attention_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Attention"]


class Attention(Function):
    """``softmax(scale * q @ k.T) @ v``, causal or not (Vaswani et al. 2017, section 3.2.1)."""

    signature = "...[q][d],...[k][d],...[k][e]->...[q][e]"
    precision = "narrow"

    @staticmethod
    def flops(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> int:
        """Count both products, with what the causal mask removes."""
        q, k, v = shapes
        return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])

    @staticmethod
    def forward(ctx: Context, q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array:
        out, weights = attention_forward(q, k, v, scale, causal)
        ctx.scale, ctx.causal = scale, causal
        ctx.save(q, k, v, weights, out)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        q, k, v, weights, out = ctx.saved
        return attention_backward(g, q, k, v, weights, out, ctx.scale, ctx.causal)
