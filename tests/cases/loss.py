"""Calls of the losses, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import INDEX, TARGET, Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "cross_entropy": (lambda x: F.cross_entropy(x, sw.tensor(TARGET)), (make(4, 5),)),
    "cross_entropy none": (lambda x: F.cross_entropy(x, sw.tensor(TARGET), reduction="none"), (make(4, 5),)),
    "cross_entropy dims": (lambda x: F.cross_entropy(x, sw.tensor(INDEX), reduction="sum"), (make(2, 4, 3),)),
    "mse": (F.mse_loss, (make(2, 3), make(2, 3, seed=1))),
}  # fmt: skip
