"""Normalisation over the last dim."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.norm import layer_norm_backward, layer_norm_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["LayerNorm"]


class LayerNorm(Function):
    """Layer normalisation over the last dim (Ba, Kiros, Hinton 2016)."""

    signature = "...[d],[d],[d]->...[d]"

    @staticmethod
    def forward(ctx: Context, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
        out, mean, rstd = layer_norm_forward(x, weight, bias, eps)
        ctx.eps = eps
        ctx.save(x, weight, mean, rstd)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        x, weight, mean, rstd = ctx.saved
        dx, dweight, dbias = layer_norm_backward(g, x, weight, mean, rstd, ctx.eps)
        return dx, dweight, dbias
