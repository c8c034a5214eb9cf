"""Dropout whose mask depends on the seed, the stream and the global index alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.random import bernoulli
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Dropout", "Keep"]


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


class Keep(Function):
    """``scale * x + shift`` where the input is kept, `dropped` where it is not (with probability `p`).

    The mask spans the first `dims` dims, and all that lies behind one of their elements shares its
    bit: with two, whole channels are dropped. Element ``i`` of these dims takes random bit
    ``offset + i`` of ``(seed, stream)``.
    """

    signature = "*"

    @staticmethod
    def forward(
        ctx: Context,
        x: Array,
        p: float,
        scale: float,
        shift: float,
        dropped: float,
        dims: int,
        seed: int,
        stream: int,
        offset: int,
    ) -> Array:
        ctx.params = {"p": p, "dims": dims, "seed": seed, "stream": stream, "offset": offset}
        ctx.scale = scale
        bits = bernoulli(x.shape[:dims], p, seed, stream, offset, like=x)
        mask = np.reshape(np.logical_not(bits), (*x.shape[:dims], *(1,) * (x.ndim - dims)))
        ctx.save(mask)
        kept: Any = x * scale
        return np.where(mask, kept + shift if shift else kept, dropped)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        (mask,) = ctx.saved
        if mask is None:  # linear but for the constants
            return (Keep.apply(g, scale=ctx.scale, shift=0.0, dropped=0.0, **ctx.params),)
        return (np.where(mask, g * ctx.scale, 0.0),)
