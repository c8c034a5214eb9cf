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
    "add alpha": (lambda a, b: a.add(b, alpha=-2.5), (make(2, 3), make(3))),
    "add not contiguous": (lambda a, b: a.T[::-2] + b[:, ::2], (make(3, 4), make(2, 5))),
    "add to an array": (lambda a: np.ones((2, 1)) + a, (make(3),)),
    "sub": (lambda a, b: a - b, (make(3, 1), make(2, 1, 4))),
    "sub alpha": (lambda a, b: a.sub(b, alpha=0.5), (make(3), make(2, 3))),
    "rsub": (lambda a: 1.0 - a, (make(3),)),
    "mul": (lambda a, b: a * b, (make(3, 1), make(1, 4))),
    "mul itself": (lambda a: a * a, (make(3),)),
    "mul not contiguous": (lambda a, b: a.T * b[::-1], (make(3, 2), make(2, 3))),
    "div": (lambda a, b: a / b, (make(3, 4), make(4, low=1.0))),
    "div itself": (lambda a: a / a, (make(3, low=1.0),)),
    "rdiv": (lambda a: 2.0 / a, (make(3, low=1.0),)),
    "div floor": (lambda a, b: a.div(b, rounding_mode="floor"), (make(3, low=4.2), make(3, low=1.3))),
    "div trunc": (lambda a, b: a.div(b, rounding_mode="trunc"), (make(3, low=-5.8), make(3, low=1.3))),
    "neg": (lambda a: -a, (make(3),)),
    "pos": (lambda a: +a * 2.0, (make(3),)),
    "zero-dimensional": (lambda a, b: a * b + a, (make(), make())),
    "zero-dimensional and more": (lambda a, b: a / b - b, (make(), make(2, 3, low=1.0))),
    "empty": (lambda a: a * 2.0, (make(0, 3),)),
    "empty broadcast": (lambda a, b: a * b + b, (make(0, 3), make(3))),
    "remainder": (lambda a, b: a % b, (make(3, low=4.2), make(3, low=1.3))),
    "remainder below zero": (lambda a, b: a % b, (make(3, low=-5.7), make(2, 1, low=1.3))),
    "rmod": (lambda a: 7.3 % a, (make(3, low=1.9),)),
    "fmod": (lambda a, b: a.fmod(b), (make(3, low=4.2), make(3, low=1.3))),
    "fmod below zero": (lambda a, b: a.fmod(b), (make(3, low=-5.7), make(2, 1, low=1.3))),
    "divmod": (lambda a, b: divmod(a, b), (make(3, low=4.2), make(3, low=1.3))),
    "addcmul": (lambda a, b, c: a.addcmul(b, c, value=0.3), (make(3), make(2, 1), make(2, 3))),
    "addcmul plain": (lambda a, b: a.addcmul(b, b), (make(2, 3), make(3))),
    "addcdiv": (lambda a, b, c: a.addcdiv(b, c, value=-2), (make(3), make(2, 1), make(2, 3, low=1.0))),
    "addcdiv plain": (lambda a, b: a.addcdiv(a, b), (make(2, 3), make(3, low=1.0))),
    "lerp": (lambda a, b: a.lerp(b, 0.3), (make(3), make(2, 3))),
    "lerp far": (lambda a, b: a.lerp(b, 0.8), (make(3), make(2, 3))),
    "lerp weight": (lambda a, b, w: a.lerp(b, w), (make(3), make(2, 3), make(2, 1))),
    "ldexp": (lambda a, b: a.ldexp(b), (make(3), make(2, 3))),
    "where": (lambda a, b: sw.where(sw.tensor(INDEX > 0), a, b), (make(2, 3), make(3))),
    "where a number": (lambda a: sw.where(sw.tensor(INDEX > 0), a, 2.0), (make(2, 3),)),
    "where a number first": (lambda a: sw.where(sw.tensor(INDEX > 0), 2, a), (make(3),)),
    "where as a method": (lambda a, b: a.where(sw.tensor(INDEX > 0), b), (make(2, 3), make(2, 1))),
    "masked_fill": (lambda a: a.masked_fill(sw.tensor(INDEX > 0), 0.5), (make(2, 3),)),
    "masked_fill by a tensor": (lambda a, b: a.masked_fill(sw.tensor(INDEX > 0), b), (make(2, 3), make())),
    "astype": (lambda a: a.astype(np.float64) * 2.0, (make(3),)),
    "clone": (lambda a: a.clone(), (make(3),)),
}  # fmt: skip
