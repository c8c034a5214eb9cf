"""Dropout whose mask depends on the seed, the stream and the global index alone."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.dropout import dropout_backward, dropout_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Dropout"]


class Dropout(Function):
    """Zero each element with probability `p`, scale the others by ``1 / (1 - p)``.

    Element ``i`` of the flat input takes random bit ``offset + i`` of ``(seed, stream)``, so
    that a shard of the input gets the same mask as it would have inside the whole.
    """

    signature = "*"

    @staticmethod
    def forward(ctx: Context, x: Array, p: float, seed: int, stream: int, offset: int) -> Array:
        out, mask = dropout_forward(x, p, seed, stream, offset)
        ctx.params = {"p": p, "seed": seed, "stream": stream, "offset": offset}
        ctx.save(mask)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (mask,) = ctx.saved
        if mask is None:  # the op is linear: its adjoint is itself, with the same bits
            return (Dropout.apply(g, **ctx.params),)
        return (dropout_backward(g, mask, ctx.params["p"]),)
