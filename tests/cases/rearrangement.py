"""Calls of the rearrangement ops, in float64, small enough for finite differences."""

from __future__ import annotations

import shardwise as sw
from cases.operand import Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "reshape": (lambda a: a.reshape(3, -1), (make(2, 6),)),
    "flatten": (lambda a: a.flatten(1), (make(2, 3, 2),)),
    "permute": (lambda a: a.permute(2, 0, 1), (make(2, 3, 4),)),
    "transpose": (lambda a: a.transpose(-1, 0), (make(2, 3, 4),)),
    "T": (lambda a: a.T * 2.0, (make(2, 3),)),
    "squeeze": (lambda a: a.squeeze(1).unsqueeze(-1), (make(2, 1, 3),)),
    "expand": (lambda a: a.expand(4, -1, 3), (make(2, 1),)),
    "split": (lambda a: a.split(2, 1), (make(2, 5),)),
    "split sizes": (lambda a: a.split([1, 3], 0)[1], (make(4, 2),)),
    "chunk": (lambda a: a.chunk(2, -1)[0], (make(2, 5),)),
    "unbind": (lambda a: a.unbind(1), (make(2, 3, 2),)),
    "cat": (lambda a, b: sw.cat([a, b, a], 1), (make(2, 3), make(2, 1))),
    "stack": (lambda a, b: sw.stack([a, b], -1), (make(2, 3), make(2, 3, seed=1))),
    "tril": (lambda a: a.tril(-1), (make(2, 3, 3),)),
    "triu": (lambda a: a.triu(1), (make(3, 4),)),
}  # fmt: skip
