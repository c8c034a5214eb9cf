"""Calls of special functions, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "erf": (lambda a: a.erf(), (make(5),)),
    "erfc": (lambda a: a.erfc(), (make(2, 3),)),
    "erfinv": (lambda a: a.erfinv(), (make(5, low=-0.5),)),
    "erfinv zero-dimensional": (lambda a: a.erfinv(), (make(low=-0.5),)),
    "lgamma": (lambda a: a.lgamma(), (make(5, low=0.3),)),
    "lgamma below zero": (lambda a: a.lgamma(), (make(3, low=-2.95) * 0.9,)),
    "digamma": (lambda a: a.digamma(), (make(5, low=1.0),)),
    "polygamma": (lambda a: a.polygamma(2), (make(5, low=1.0),)),
    "polygamma 0": (lambda a: a.polygamma(0), (make(2, 3, low=2.0),)),
    "i0": (lambda a: a.i0(), (make(2, 3),)),
    "i0e": (lambda a: a.i0e(), (make(2, 3),)),
    "i1": (lambda a: a.i1(), (make(2, 3),)),
    "i1e": (lambda a: a.i1e(), (make(2, 3),)),
    "erf empty": (lambda a: a.erf(), (make(0, 3),)),
    "erfc not contiguous": (lambda a: a.T[::-2].erfc(), (make(2, 3),)),
}  # fmt: skip
