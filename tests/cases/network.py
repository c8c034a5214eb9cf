"""Calls of the network ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import INDEX, MASK, TARGET, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "gelu": (F.gelu, (make(2, 5),)),
    "gelu tanh": (lambda a: F.gelu(a, "tanh"), (make(2, 5),)),
    "softmax": (lambda a: a.softmax(-1), (make(2, 4),)),
    "softmax dim": (lambda a: a.softmax(0), (make(3, 2),)),
    "log_softmax": (lambda a: a.log_softmax(), (make(2, 4),)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 4, w, b), (make(3, 4), make(4), make(4, seed=1))),
    "layer_norm plain": (lambda x: F.layer_norm(x, (2, 3)), (make(2, 2, 3),)),
    "layer_norm no shift": (lambda x, w: F.layer_norm(x, 4, w), (make(3, 4), make(4))),
    "cross_entropy": (lambda x: F.cross_entropy(x, sw.tensor(TARGET)), (make(4, 5),)),
    "cross_entropy none": (lambda x: F.cross_entropy(x, sw.tensor(TARGET), reduction="none"), (make(4, 5),)),
    "cross_entropy dims": (lambda x: F.cross_entropy(x, sw.tensor(INDEX), reduction="sum"), (make(2, 4, 3),)),
    "mse": (F.mse_loss, (make(2, 3), make(2, 3, seed=1))),
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
