"""Calls of the reduction ops, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "sum": (lambda a: a.sum(), (make(2, 3),)),
    "sum dim": (lambda a: a.sum(-1), (make(2, 3, 4),)),
    "sum dims keepdim": (lambda a: a.sum((0, -1), keepdim=True), (make(2, 3, 4),)),
    "mean": (lambda a: a.mean(), (make(2, 3),)),
    "mean dim": (lambda a: a.mean(1), (make(2, 3, 2),)),
    "var": (lambda a: a.var(-1), (make(2, 4),)),
    "amax": (lambda a: a.amax(1), (make(3, 4),)),
    "amin all": (lambda a: a.amin(), (make(3, 4),)),
}  # fmt: skip
