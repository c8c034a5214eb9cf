"""Calls of the attention ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import MASK, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "attention": (F.scaled_dot_product_attention, (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2))),
    "attention causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (make(2, 2, 4, 3), make(2, 2, 4, 3, seed=1), make(2, 2, 4, 3, seed=2)),
    ),
    "attention masked": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=sw.tensor(MASK)),
        (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2)),
    ),
}  # fmt: skip
