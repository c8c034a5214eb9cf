"""Calls of the ops that look up rows, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import INDEX, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

FLAT = INDEX.ravel()
STARTS = np.array([0, 1, 1, 4])
ONCE = np.array([2, 0])
NONE = np.zeros((0, 3), np.int64)

CASES: dict[str, Case] = {
    # where padding is looked up, or a row twice, these gradients are not the true ones, on purpose
    "embedding padding": (lambda w: F.embedding(sw.tensor(INDEX), w, -1) ** 2, (make(4, 2),)),
    "embedding by frequency": (
        lambda w: F.embedding(sw.tensor(ONCE), w, scale_grad_by_freq=True) ** 2, (make(3, 2),),
    ),
    "embedding of nothing": (lambda w: F.embedding(sw.tensor(NONE), w, 0), (make(3, 2),)),
    "bag sum": (lambda w: F.embedding_bag(sw.tensor(INDEX), w, mode="sum"), (make(3, 2),)),
    "bag mean": (lambda w: F.embedding_bag(sw.tensor(INDEX), w, padding_idx=1), (make(3, 2),)),
    "bag max": (lambda w: F.embedding_bag(sw.tensor(INDEX), w, mode="max"), (make(3, 2),)),
    "bag max padding": (
        lambda w: F.embedding_bag(sw.tensor(INDEX), w, mode="max", padding_idx=2), (make(3, 2),),
    ),
    "bag offsets": (
        lambda w, p: F.embedding_bag(sw.tensor(FLAT), w, sw.tensor(STARTS), mode="sum", per_sample_weights=p),
        (make(3, 2), make(6)),
    ),
    "bag offsets mean": (
        lambda w: F.embedding_bag(sw.tensor(FLAT), w, sw.tensor(STARTS)) ** 2, (make(3, 2),),
    ),
    "bag offsets by frequency": (
        lambda w: F.embedding_bag(
            sw.tensor(ONCE), w, sw.tensor(STARTS[:2]), scale_grad_by_freq=True, padding_idx=0
        ),
        (make(3, 2),),
    ),
    "bag of nothing": (lambda w: F.embedding_bag(sw.tensor(NONE), w, mode="mean"), (make(3, 2),)),
    "bilinear": (F.bilinear, (make(2, 3), make(2, 4), make(5, 3, 4), make(5))),
    "bilinear of vectors": (lambda x, w: F.bilinear(x, x, w), (make(3), make(2, 3, 3))),
}  # fmt: skip
