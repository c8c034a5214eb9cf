"""Calls of the linear ops, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "matmul": (lambda a, b: a @ b, (make(2, 3), make(3, 4))),
    "matmul many rows": (lambda a, b: a @ b, (make(2, 2, 3), make(3, 4))),
    "matmul batch": (lambda a, b: a @ b, (make(2, 1, 2, 3), make(4, 3, 2))),
    "matmul one matrix, many": (lambda a, b: a @ b, (make(2, 3), make(4, 3, 2))),
    "matmul vector": (lambda a, b: a @ b, (make(3), make(3, 4))),
    "matmul to vector": (lambda a, b: a @ b, (make(2, 4, 3), make(3))),
    "matmul vector to many": (lambda a, b: a @ b, (make(3), make(2, 3, 4))),
    "dot": (lambda a, b: a @ b, (make(3), make(3, seed=1))),
    "linear": (F.linear, (make(2, 3, 4), make(5, 4), make(5))),
}  # fmt: skip
