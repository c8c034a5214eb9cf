"""Calls of attention with its masks and grouped heads, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import MASK, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

attend = F.scaled_dot_product_attention
BLIND = MASK & (np.arange(3) != 1)[:, None]  # the second query sees nothing
ADDED = np.where(BLIND, 0.5, -np.inf)

CASES: dict[str, Case] = {
    "attention": (attend, (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2))),
    "attention causal": (
        lambda q, k, v: attend(q, k, v, is_causal=True),
        (make(2, 2, 4, 3), make(2, 2, 4, 3, seed=1), make(2, 2, 4, 3, seed=2)),
    ),
    "attention masked": (
        lambda q, k, v: attend(q, k, v, attn_mask=sw.tensor(MASK)),
        (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2)),
    ),
    "attention leading dims": (attend, (make(2, 2), make(2, 3, 2), make(2, 1, 3, 1))),
    "attention without keys": (attend, (make(2, 3, 4), make(2, 0, 4), make(2, 0, 2))),
    "attention without queries": (attend, (make(2, 0, 4), make(2, 5, 4), make(2, 5, 2))),
    "attention blind": (
        lambda q, k, v: attend(q, k, v, sw.tensor(BLIND)), (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2)),
    ),
    "attention minus infinity": (
        lambda q, k, v: attend(q, k, v, sw.tensor(ADDED)), (make(2, 3, 4), make(2, 5, 4), make(2, 5, 2)),
    ),
    "attention bias": (attend, (make(2, 3, 2), make(2, 4, 2), make(2, 4, 2, seed=1), make(3, 1))),
    "attention grouped": (
        lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True),
        (make(4, 2, 1), make(2, 2, 1), make(2, 2, 2)),
    ),
    "attention grouped bias": (
        lambda q, k, v, b: attend(q, k, v, b, enable_gqa=True),
        (make(4, 2, 1), make(2, 2, 1), make(2, 2, 1, seed=1), make(4, 2, 1, seed=2)),
    ),
    "attention scale": (
        lambda q, k: attend(q, k, k, scale=-0.3, is_causal=True), (make(2, 3, 2), make(2, 4, 2)),
    ),
}  # fmt: skip
