"""Scaled dot-product attention, fused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.attention.attention import Dropped, attention_backward, attention_forward
from shardwise.backend.position import Place, placed
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.signature import Part

__all__ = ["Attention"]


class Attention(Function):
    """``softmax(scale * q @ k.T + mask) @ v``, causal or not (Vaswani et al. 2017, section 3.2.1).

    The mask is None, booleans (True takes part) or numbers that are added. Leading dims broadcast. With a
    probability `p` above 0 weights are dropped: weight ``i`` of the flat (..., q, k) by random bit
    ``offset + i`` of ``(seed, stream)``. Of a part, `Positions` say which bit each weight takes, so that it
    drops what it would within the whole.
    """

    broadcasts = True
    precision = "narrow"
    unseen = frozenset({"seed", "stream", "offset"})

    @staticmethod
    def signature(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> str:
        query = "[q]" if params.get("causal") else "q"  # which keys it sees depends on its place
        operands = f"...{query}[d],...[k][d],...[k][e]"
        if len(shapes) > 3:
            mask = shapes[3]
            names = (query, "[k]")[-len(mask) :]
            dims = ["1" if n == 1 else name for n, name in zip(mask[-2:], names, strict=False)]
            operands += f",{'...' if len(mask) > 2 else ''}{''.join(dims)}"
        return f"{operands}->...{query}[e]"

    @staticmethod
    def flops(shapes: tuple[tuple[int, ...], ...], params: dict[str, Any]) -> int:
        """Count both products, with what the causal mask removes."""
        q, k, v, *_ = shapes
        lead = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        return 2 * math.prod(lead) * q[-2] * k[-2] * (q[-1] + v[-1])

    @staticmethod
    def localize(params: dict[str, Any], inputs: Sequence[Part], outputs: Sequence[Part]) -> dict[str, Any]:
        """Say which bits the weights of a part take."""
        if params.get("p", 0.0) <= 0.0:
            return params
        out, keys = outputs[0], inputs[1]
        weights = Part(*[(*of_out[:-1], of_keys[-2]) for of_out, of_keys in zip(out, keys, strict=True)])
        return {**params, "offset": placed(params.get("offset", 0), *weights)}

    @staticmethod
    def forward(
        ctx: Context,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        scale: float = 1.0,
        causal: bool = False,
        p: float = 0.0,
        seed: int = 0,
        stream: int = 0,
        offset: Place = 0,
    ) -> Array:
        dropped = Dropped(p, seed, stream, offset) if p > 0.0 else None
        bias, mask = _parted(mask)
        out, peak, share = attention_forward(q, k, v, bias, mask, scale, causal, dropped)
        ctx.params = (scale, causal, dropped)
        ctx.save(q, k, v, bias, mask, out, peak, share)
        return out

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        q, k, v, bias, mask, y, peak, share = ctx.saved
        scale, causal, dropped = ctx.params
        of_q, of_k, of_v, of_bias, *_ = (*ctx.need, False)
        gradients = attention_backward(
            g, q, k, v, bias, mask, y, peak, share, scale, causal, dropped, (of_q, of_k, of_v, of_bias)
        )
        return gradients[: len(ctx.need)]


def _parted(mask: Array | None) -> tuple[Array | None, Array | None]:
    """Return a mask of numbers, and one of booleans."""
    if mask is None or mask.dtype.kind == "b":
        return None, mask
    return mask, None
