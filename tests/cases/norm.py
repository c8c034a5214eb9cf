"""Calls of the normalising ops, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, 4, w, b), (make(3, 4), make(4), make(4, seed=1))),
    "layer_norm plain": (lambda x: F.layer_norm(x, (2, 3)), (make(2, 2, 3),)),
    "layer_norm no shift": (lambda x, w: F.layer_norm(x, 4, w), (make(3, 4), make(4))),
}  # fmt: skip
