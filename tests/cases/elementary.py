"""Calls of the elementary ops, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "exp": (lambda a: a.exp(), (make(3),)),
    "log": (lambda a: a.log(), (make(3, low=0.5),)),
    "sqrt": (lambda a: a.sqrt(), (make(3, low=0.5),)),
    "sin cos": (lambda a: a.sin() * a.cos(), (make(3),)),
    "sinh cosh": (lambda a: a.sinh() * a.cosh(), (make(3),)),
    "tanh": (lambda a: a.tanh(), (make(3),)),
    "sigmoid": (lambda a: a.sigmoid(), (make(3),)),
    "erf": (lambda a: a.erf(), (make(5),)),
    "abs": (lambda a: abs(a), (make(3),)),
    "relu": (lambda a: a.relu(), (make(5),)),
}  # fmt: skip
