"""Calls of choices, rounding and parts, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

from cases.operand import INDEX, Case, make

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "abs": (lambda a: abs(a), (make(3),)),
    "fabs": (np.fabs, (make(3),)),
    "relu": (lambda a: a.relu(), (make(5),)),
    "sign": (lambda a: a.sign() * a, (make(5),)),
    "sgn": (lambda a: a.sgn() * a, (make(5),)),
    "copysign": (lambda a, b: a.copysign(b), (make(5), make(2, 1, 5))),
    "copysign a number": (lambda a: a.copysign(-1.0), (make(5),)),
    "heaviside": (lambda a, b: a.heaviside(b), (make(5), make(5, seed=1))),
    "heaviside at zero": (lambda b: np.heaviside(np.array([-1.0, 0.0, 2.0]), b), (make(2, 3),)),
    "floor": (lambda a: a.floor() * a, (make(5),)),
    "ceil": (lambda a: a.ceil() * a, (make(5),)),
    "trunc": (lambda a: a.trunc() * a, (make(5),)),
    "rint": (lambda a: np.rint(a) * a, (make(5),)),
    "round": (lambda a: a.round(decimals=1) * a, (make(5),)),
    "frac": (lambda a: a.frac(), (make(2, 3),)),
    "floor zero-dimensional": (lambda a: a.floor() + a, (make(),)),
    "maximum": (lambda a, b: a.maximum(b), (make(3, 4), make(4, seed=1))),
    "maximum a number": (lambda a: np.maximum(0.1, a), (make(3, 4),)),
    "maximum itself": (lambda a: a.maximum(a), (make(3),)),
    "minimum": (lambda a, b: a.minimum(b), (make(3, 4), make(4, seed=1))),
    "minimum empty": (lambda a, b: a.minimum(b), (make(0, 4), make(4))),
    "fmax": (lambda a, b: a.fmax(b), (make(3, 4), make(4, seed=1))),
    "fmin": (lambda a, b: a.fmin(b), (make(3, 4), make(4, seed=1))),
    "clip": (lambda a: a.clip(-0.5, 0.7), (make(6),)),
    "clip crossed": (lambda a: a.clip(0.7, -0.5) + a, (make(6),)),
    "clamp low": (lambda a: a.clamp(min=-0.5), (make(6),)),
    "clamp high": (lambda a: a.clamp_max(0.1), (make(6),)),
    "clamp by tensors": (lambda a, b, c: a.clamp(b, c), (make(3, 6), make(6), make(6, low=0.2))),
    "clamp by crossed tensors": (lambda a, b, c: a.clamp(b, c), (make(6), make(6, low=0.2), make(3, 6))),
    "clamp by one tensor": (lambda a, b: a.clamp_min(b), (make(3, 1), make(6))),
    "clamp by a tensor and a number": (lambda a, b: np.clip(a, b, 0.5), (make(6), make(2, 6))),
    "nan_to_num": (lambda a: a.nan_to_num(), (make(2, 3),)),
    "nan_to_num of some": (
        lambda a: np.where(INDEX > 1, np.nan, np.where(INDEX > 0, -np.inf, a)).nan_to_num(1.0, neginf=2.0),
        (make(2, 3),),
    ),
    "real": (lambda a: np.real(a) * 2.0, (make(3),)),
    "imag": (lambda a: a.imag + a, (make(3),)),
    "angle": (lambda a: a.angle() * a, (make(3),)),
}  # fmt: skip
