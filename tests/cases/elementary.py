"""Calls of powers, exponentials and logarithms, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make

__all__ = ["CASES"]

_ZEROS = sw.tensor(np.zeros(3), requires_grad=True)

CASES: dict[str, Case] = {
    "pow": (lambda a, b: a**b, (make(3, low=0.5), make(2, 3))),
    "pow itself": (lambda a: a**a, (make(3, low=0.5),)),
    "pow not contiguous": (lambda a, b: a.T[::-1] ** b[::2], (make(2, 3, low=0.5), make(5, 2))),
    **{f"pow {n}": (lambda a, n=n: a**n, (make(3),)) for n in (0, 1, 2, 3, 4, -1, -2)},
    **{f"pow {n}": (lambda a, n=n: a**n, (make(3, low=0.3),)) for n in (0.5, -0.5, 2.0, 2.7)},
    "pow below zero": (lambda a: a ** np.array([1.0, 2.0, 3.0]), (make(3, low=-2.0),)),
    "pow of integers": (lambda a: a ** np.array([0, 1, 3]), (make(3),)),
    "pow with exponents of zero": (lambda a, b: a**b, (make(3, low=0.5), _ZEROS)),
    "rpow": (lambda a: 2.0**a, (make(3),)),
    "rpow integer": (lambda a: 3**a, (make(2, 3),)),
    "pow zero-dimensional": (lambda a, b: a**b, (make(low=0.5), make())),
    "pow empty": (lambda a, b: a**b, (make(0, 3, low=0.5), make(3))),
    "float_power": (lambda a, b: a.float_power(b), (make(3, low=0.5), make(2, 3))),
    "square": (lambda a: a.square(), (make(2, 3),)),
    "sqrt": (lambda a: a.sqrt(), (make(3, low=0.5),)),
    "sqrt zero-dimensional": (lambda a: a.sqrt(), (make(low=0.5),)),
    "rsqrt": (lambda a: a.rsqrt(), (make(3, low=0.5),)),
    "cbrt": (lambda a: a.cbrt(), (make(4, low=-0.4),)),
    "reciprocal": (lambda a: a.reciprocal(), (make(3, low=0.5),)),
    "reciprocal below zero": (lambda a: a.reciprocal(), (make(3, low=-1.5),)),
    "hypot": (lambda a, b: a.hypot(b), (make(3), make(2, 3))),
    "hypot itself": (lambda a: a.hypot(a), (make(3),)),
    "exp": (lambda a: a.exp(), (make(3),)),
    "exp not contiguous": (lambda a: a.T[::-2].exp(), (make(2, 5),)),
    "exp empty": (lambda a: a.exp(), (make(2, 0),)),
    "exp2": (lambda a: a.exp2(), (make(3),)),
    "expm1": (lambda a: a.expm1(), (make(3),)),
    "log": (lambda a: a.log(), (make(3, low=0.5),)),
    "log2": (lambda a: a.log2(), (make(3, low=0.5),)),
    "log10": (lambda a: a.log10(), (make(3, low=0.5),)),
    "log1p": (lambda a: a.log1p(), (make(3, low=-0.6),)),
    "logaddexp": (lambda a, b: a.logaddexp(b), (make(3), make(2, 3))),
    "logaddexp itself": (lambda a: a.logaddexp(a), (make(3),)),
    "logaddexp a number": (lambda a: a.logaddexp(1.5), (make(3),)),
    "logaddexp2": (lambda a, b: a.logaddexp2(b), (make(3), make(2, 3))),
    "xlogy": (lambda a, b: a.xlogy(b), (make(3), make(2, 3, low=0.5))),
    "xlogy of zeros": (lambda a, b: a.xlogy(b), (_ZEROS, make(2, 3, low=0.5))),
    "xlog1py of zeros": (lambda a, b: a.xlog1py(b), (_ZEROS, make(2, 3, low=-0.5))),
    "xlogy a number": (lambda a: a.xlogy(3.0), (make(3),)),
    "xlog1py": (lambda a, b: a.xlog1py(b), (make(3), make(2, 3, low=-0.5))),
    "sigmoid": (lambda a: a.sigmoid(), (make(2, 3),)),
    "logit": (lambda a: a.logit(), (make(5, low=0.001),)),
    "logit kept": (lambda a: a.logit(0.1), (make(9, low=0.003),)),
}  # fmt: skip
