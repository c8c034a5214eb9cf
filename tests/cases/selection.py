"""Calls of the selection ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import INDEX, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "slice": (lambda a: a[1:, ::2], (make(3, 5),)),
    "slice backwards": (lambda a: a[::-1, None, 1], (make(3, 5),)),
    "index": (lambda a: a[INDEX], (make(3, 2),)),
    "index mixed": (lambda a: a[:, INDEX[0]], (make(2, 3),)),
    "index booleans": (lambda a: a[INDEX > 0], (make(2, 3),)),
    "take_along": (lambda a: a.take_along_dim(sw.tensor(INDEX), 0), (make(3, 3),)),
    "embedding": (lambda w: F.embedding(sw.tensor(INDEX), w), (make(3, 2),)),
}  # fmt: skip
