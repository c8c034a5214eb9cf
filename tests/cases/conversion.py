"""Calls of what copies, converts and takes apart, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

from cases.operand import Case, make
from shardwise.tensor.complex import complex as as_complex
from shardwise.tensor.complex import polar

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "to copy": (lambda a: a.to(a, copy=True) * a, (make(3),)),
    "to of another": (lambda a, b: a.to(b) * b, (make(3), make())),
    "copy of empty": (lambda a: a.copy(), (make(0, 2),)),
    "to complex": (lambda a: a.to(np.complex128) * 1j, (make(2, 3),)),
    "contiguous of transposed": (lambda a: a.T.contiguous() * a.T, (make(2, 3),)),
    "iteration": (lambda a: sum(row * i for i, row in enumerate(a, 1)), (make(3, 2),)),
    "builtin round": (lambda a: round(a, 1) + a, (make(3),)),
    "complex": (lambda a, b: as_complex(a, b), (make(2, 1), make(3))),
    "complex of one part": (lambda a: as_complex(a, a), (make(),)),
    "complex of empty": (lambda a, b: as_complex(a, b), (make(0, 2), make(2))),
    "complex of strided": (lambda a: as_complex(a.T[::-1], a.T), (make(2, 3),)),
    "polar": (lambda a, b: polar(a, b), (make(2, 1, low=0.5), make(3))),
}
