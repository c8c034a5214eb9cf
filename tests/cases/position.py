"""Calls of rotations by position, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make
from shardwise.nn.functions import position as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "rotary": (F.apply_rotary, (make(2, 3, 4), make(3, 2), make(3, 2, seed=1))),
    "rotary neighbours": (
        lambda x, c, s: F.apply_rotary(x, c, s, interleaved=True),
        (make(2, 3, 4), make(3, 2), make(3, 2, seed=1)),
    ),
    "rotary of some features": (F.apply_rotary, (make(2, 2, 5), make(2, 2), make(2, 2, seed=1))),
    "rotary by sequence": (
        lambda x, c, s: F.apply_rotary(x, c, s, True), (make(2, 2, 3), make(2, 2, 1), make(2, 2, 1, seed=1)),
    ),
    "rotary of nothing": (F.apply_rotary, (make(2, 0, 4), make(0, 2), make(0, 2, seed=1))),
}  # fmt: skip
