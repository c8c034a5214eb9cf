"""Calls of elementwise ops on complex numbers, small enough for finite differences.

Real and imaginary parts are moved one by one, so a wrong conjugate shows in every case.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shardwise as sw
from cases.operand import INDEX, Case, make

__all__ = ["CASES", "make_complex"]


def make_complex(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """A complex128 tensor that requires grad; real and imaginary parts are normal."""
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return sw.tensor(scale * values, requires_grad=True)


UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square", "reciprocal",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinc", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "sigmoid", "abs", "sgn", "angle", "conj", "neg", "nan_to_num",
)  # fmt: skip

z, w, real = make_complex, make_complex(2, 1, 3), make(3, low=0.5)

CASES: dict[str, Case] = {
    **{f"complex {name}": (lambda a, name=name: getattr(a, name)(), (z(5),)) for name in UNARY},
    **{
        f"complex small {name}": (lambda a, name=name: getattr(a, name)(), (z(2, 2, scale=0.2),))
        for name in ("asin", "acos", "atanh", "acosh", "sinc", "log1p", "expm1")
    },
    "complex sinh far": (lambda a: a.sinc(), (z(4, scale=0.8),)),
    "complex real": (lambda a: a.real * a.real, (z(2, 3),)),
    "complex imag": (lambda a: a.imag.exp(), (z(2, 3),)),
    "complex real and imag": (lambda a: np.real(a) * np.imag(a), (z(),)),
    "complex add": (lambda a, b: a + b, (z(3), w)),
    "complex and real add": (lambda a, b: a + b, (real, w)),
    "complex sub": (lambda a, b: a - 2.0 * b, (real, w)),
    "complex mul": (lambda a, b: a * b, (z(3), w)),
    "complex mul itself": (lambda a: a * a, (z(3),)),
    "complex and real mul": (lambda a, b: a * b, (real, w)),
    "complex number mul": (lambda a, b: a * (1 + 2j) + b * 2j, (real, w)),
    "complex div": (lambda a, b: a / b, (z(3), w)),
    "complex and real div": (lambda a, b: a / b, (w, real)),
    "real and complex div": (lambda a, b: a / b, (real, w)),
    "complex number div": (lambda a: (1 - 2j) / a + a / 2j, (z(3),)),
    "complex pow": (lambda a, b: a**b, (z(3), w)),
    "complex pow real": (lambda a, b: a**b, (w, real)),
    "real pow complex": (lambda a, b: a**b, (real, w)),
    "below zero pow complex": (lambda a, b: a**b, (make(3, low=-1.5), w)),
    "complex pow 0": (lambda a: a**0, (z(3),)),
    "complex pow 2": (lambda a: a**2, (z(3),)),
    "complex pow -1.5": (lambda a: a**-1.5, (z(3),)),
    "complex pow complex number": (lambda a, b: a ** (1 - 2j) + (0.5 + 1j) ** b, (z(3), real)),
    "complex float_power": (lambda a, b: a.float_power(b), (z(3), w)),
    "complex addcmul": (lambda a, b, c: a.addcmul(b, c, value=1 - 2j), (z(3), w, real)),
    "complex addcdiv": (lambda a, b, c: a.addcdiv(b, c, value=0.5j), (real, make(3, low=0.5, seed=1), w)),
    "complex lerp": (lambda a, b, c: a.lerp(b, c), (z(3), w, z(3, seed=1))),
    "complex where": (lambda a, b: sw.where(sw.tensor(INDEX > 0), a, b), (z(2, 3), real)),
    "complex where a number": (lambda a: sw.where(sw.tensor(INDEX > 0), a, 1j), (real,)),
    "complex masked_fill": (lambda a, b: a.masked_fill(sw.tensor(INDEX > 0), b), (z(2, 3), z())),
    "complex clone": (lambda a: a.clone(), (z(3),)),
    "real as complex": (lambda a: a.astype(np.complex128) * 2j, (real,)),
    "complex loss": (lambda a, b: ((a * b).exp() - b).abs().square().sum(), (w, real)),
    "complex in place": (lambda a, b: (a * 1.0).mul_(b).exp_().div_(b).add_(a), (z(2, 3), z(3))),
    "complex conj_physical_": (lambda a: (a * 1.0).conj_physical_() * a, (z(3),)),
    "complex not contiguous": (lambda a, b: a.T[::-1] / b[::2], (z(2, 3), z(5, 2))),
    "complex empty": (lambda a, b: a * b, (z(0, 3), real)),
}  # fmt: skip
