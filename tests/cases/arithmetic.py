"""Calls of the arithmetic ops, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import INDEX, Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "add broadcast": (lambda a, b: a + b, (make(3, 4), make(4))),
    "add scalar": (lambda a: 2.0 + a + 1, (make(3),)),
    "add itself": (lambda a: a + a, (make(2, 3),)),
    "sub": (lambda a, b: a - b, (make(3, 1), make(2, 1, 4))),
    "rsub": (lambda a: 1.0 - a, (make(3),)),
    "mul": (lambda a, b: a * b, (make(3, 1), make(1, 4))),
    "mul itself": (lambda a: a * a, (make(3),)),
    "div": (lambda a, b: a / b, (make(3, 4), make(4, low=1.0))),
    "rdiv": (lambda a: 2.0 / a, (make(3, low=1.0),)),
    "pow": (lambda a, b: a**b, (make(3, low=0.5), make(2, 3))),
    "pow scalar": (lambda a: a**3, (make(3),)),
    "rpow": (lambda a: 2.0**a, (make(3),)),
    "neg": (lambda a: -a, (make(3),)),
    "zero-dimensional": (lambda a, b: a * b + a, (make(), make())),
    "empty": (lambda a: a * 2.0, (make(0, 3),)),
    "clip": (lambda a: a.clip(-0.5, 0.7), (make(6),)),
    "maximum": (lambda a, b: a.maximum(b), (make(3, 4), make(4, seed=1))),
    "minimum": (lambda a, b: a.minimum(b), (make(3, 4), make(4, seed=1))),
    "where": (lambda a, b: sw.where(sw.tensor(INDEX > 0), a, b), (make(2, 3), make(3))),
    "remainder": (lambda a, b: a % b, (make(3, low=4.2), make(3, low=1.3))),
    "masked_fill": (lambda a: a.masked_fill(sw.tensor(INDEX > 0), 0.5), (make(2, 3),)),
    "astype": (lambda a: a.astype(np.float64) * 2.0, (make(3),)),
    "clone": (lambda a: a.clone(), (make(3),)),
}  # fmt: skip
