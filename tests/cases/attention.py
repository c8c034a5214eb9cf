"""Calls of attention with its masks and grouped heads, in float64, small enough for finite differences."""

from __future__ import annotations

from functools import partial

import numpy as np

import shardwise as sw
from cases.operand import MASK, Case, make
from shardwise.nn import functional as F
from shardwise.tensor.ops.attention import Attention

__all__ = ["CASES"]

attend = F.scaled_dot_product_attention
drop = partial(Attention.apply, p=0.4, seed=3, stream=5, offset=2)
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
    "attention one": (attend, (make(1, 1), make(1, 1, seed=1), make(1, 1, seed=2))),
    "attention with itself": (lambda x: attend(x, x, x, is_causal=True), (make(2, 4, 3),)),
    "attention of heads within rows": (
        lambda x: attend(*x.permute(2, 0, 3, 1, 4).unbind(0)).transpose(1, 2).reshape(1, 3, 4),
        (make(1, 3, 3, 2, 2),),
    ),
    "attention of reversed keys": (
        lambda q, k, v: attend(q, k.flip(-2), v[..., ::2]), (make(2, 3, 2), make(2, 4, 2), make(2, 4, 4)),
    ),
    "attention of no heads": (attend, (make(0, 3, 2), make(0, 4, 2), make(0, 4, 3))),
    "attention more queries causal": (
        lambda q, k, v: attend(q, k, v, is_causal=True), (make(5, 2), make(3, 2), make(3, 3)),
    ),
    "attention more keys causal": (
        lambda q, k, v: attend(q, k, v, is_causal=True), (make(2, 3, 2), make(2, 5, 2), make(2, 5, 1)),
    ),
    "attention bias per key": (
        lambda q, k, v, b: attend(q, k, v, b), (make(2, 3, 2), make(2, 4, 2), make(2, 4, 2, seed=1), make(4)),
    ),
    "attention bias per head": (attend, (make(2, 3, 2), make(2, 4, 2), make(2, 4, 2, seed=1), make(2, 1, 1))),
    "attention bias scale": (
        lambda q, k, v, b: attend(q, k, v, b, scale=-0.7),
        (make(2, 3, 2), make(2, 4, 2), make(2, 4, 2, seed=1), make(3, 4)),
    ),
    "attention bias and causal": (
        lambda q, k, v, b: Attention.apply(q, k, v, b, scale=0.6, causal=True),
        (make(2, 3, 2), make(2, 4, 2), make(2, 4, 2, seed=1), make(2, 3, 4)),
    ),
    "attention mask and causal": (
        lambda q, k, v: Attention.apply(q, k, v, sw.tensor(BLIND), scale=0.6, causal=True),
        (make(2, 3, 2), make(2, 5, 2), make(2, 5, 2, seed=1)),
    ),
    "attention dropout": (drop, (make(2, 3, 2), make(2, 5, 2), make(2, 5, 3))),
    "attention dropout causal": (
        lambda q, k, v: drop(q, k, v, scale=0.5, causal=True), (make(4, 2), make(4, 2, seed=1), make(4, 3)),
    ),
    "attention dropout bias": (
        drop, (make(2, 3, 2), make(2, 5, 2), make(2, 5, 3), make(2, 3, 5)),
    ),
    "attention dropout grouped": (
        lambda q, k, v: drop(q, k, v, sw.tensor(MASK)),
        (make(2, 2, 3, 2), make(2, 1, 5, 2), make(2, 1, 5, 3)),
    ),
}  # fmt: skip
