"""Calls of circular and hyperbolic functions, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

from cases.operand import Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "sin cos": (lambda a: a.sin() * a.cos(), (make(3),)),
    "sin zero-dimensional": (lambda a: a.sin(), (make(),)),
    "tan": (lambda a: a.tan(), (make(3, low=-0.7),)),
    "asin": (lambda a: a.asin(), (make(5, low=-0.5),)),
    "acos": (lambda a: a.acos(), (make(5, low=-0.5),)),
    "atan": (lambda a: a.atan(), (make(2, 3),)),
    "atan2": (lambda a, b: a.atan2(b), (make(3), make(2, 3))),
    "atan2 a number": (lambda a: a.atan2(-0.5) + np.arctan2(2.0, a), (make(3),)),
    "atan2 itself": (lambda a: a.atan2(a), (make(3),)),
    "sinc": (lambda a: a.sinc(), (make(2, 3),)),
    "sinc near zero": (lambda a: a.sinc(), (make(5, low=-0.5) * 0.1,)),
    "sinc at zero": (lambda a: (a * 0.0 + 0.0).sinc() + a.sinc(), (make(2),)),
    "deg2rad": (lambda a: a.deg2rad(), (make(3),)),
    "rad2deg": (lambda a: a.rad2deg(), (make(3),)),
    "sinh cosh": (lambda a: a.sinh() * a.cosh(), (make(3),)),
    "tanh": (lambda a: a.tanh(), (make(3),)),
    "tanh not contiguous": (lambda a: a.T[:, ::-1].tanh(), (make(2, 3),)),
    "asinh": (lambda a: a.asinh(), (make(2, 3),)),
    "acosh": (lambda a: a.acosh(), (make(3, low=1.3),)),
    "atanh": (lambda a: a.atanh(), (make(3, low=-0.5),)),
    "atanh empty": (lambda a: a.atanh(), (make(0),)),
}  # fmt: skip
