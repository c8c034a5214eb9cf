"""Dropout whose mask depends on the seed, the stream and the global index alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.position import Place, placed
from shardwise.backend.random import bernoulli
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.signature import Part

__all__ = ["Dropout", "Keep"]


class Dropout(Function):
    """Zero each element with probability `p`, scale the others by ``1 / (1 - p)``.

    Element ``i`` of the flat input takes random bit ``offset + i`` of ``(seed, stream)``. Of a part,
    `Positions` say which bit each element takes, so that it gets the same mask as within the whole.
    """

    signature = "*"
    linear = "all"
    unseen = frozenset({"seed", "stream", "offset"})

    @staticmethod
    def localize(params: dict[str, Any], inputs: Sequence[Part], outputs: Sequence[Part]) -> dict[str, Any]:
        """Say which bits a part takes."""
        return {**params, "offset": placed(params["offset"], *outputs[0])}

    @staticmethod
    def forward(ctx: Context, x: Array, p: float, seed: int, stream: int, offset: Place) -> Array:
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
    unseen = frozenset({"seed", "stream", "offset"})

    @staticmethod
    def localize(params: dict[str, Any], inputs: Sequence[Part], outputs: Sequence[Part]) -> dict[str, Any]:
        """Say which bits a part takes."""
        return {**params, "offset": placed(params["offset"], *[of[: params["dims"]] for of in outputs[0]])}

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
        offset: Place,
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
