"""Calls of the activations, in float64, small enough for finite differences."""

from __future__ import annotations

import numpy as np

import shardwise as sw
from cases.operand import Case, make
from shardwise.nn import functional as F
from shardwise.tensor import Tensor

__all__ = ["CASES"]


def wide(*shape: int) -> Tensor:
    """Inputs on all pieces of an activation, none of them at a kink."""
    size = int(np.prod(shape))
    values = np.linspace(-6.83, 6.71, size) if size > 1 else np.full(size, -0.31)
    return sw.tensor(np.random.default_rng(size).permutation(values).reshape(shape), requires_grad=True)


ZERO = sw.tensor(np.zeros(3), requires_grad=True)
"""Where formulas of the absolute value would lose a gradient's gradient."""

CASES: dict[str, Case] = {
    "gelu": (F.gelu, (make(2, 5),)),
    "gelu tanh": (lambda a: F.gelu(a, "tanh"), (make(2, 5),)),
    "relu6": (F.relu6, (wide(13),)),
    "hardtanh": (lambda a: F.hardtanh(a, -2.0, 0.5), (wide(3, 4),)),
    "leaky_relu": (lambda a: F.leaky_relu(a, 0.3), (wide(3, 4),)),
    "leaky_relu transposed": (lambda a: F.leaky_relu(a.T), (wide(3, 4),)),
    "prelu": (F.prelu, (wide(2, 3, 4), make(3))),
    "prelu one weight": (F.prelu, (wide(2, 3), make(1))),
    "prelu of rows": (F.prelu, (wide(2, 3), make(3))),
    "prelu of a number": (F.prelu, (wide(), make())),
    "prelu itself": (lambda w: F.prelu(w.reshape(1, 3), w), (make(3),)),
    "rrelu": (F.rrelu, (wide(7),)),
    "elu": (lambda a: F.elu(a, 0.7), (wide(3, 4),)),
    "elu of a number": (F.elu, (wide(),)),
    "elu of nothing": (F.elu, (wide(0, 3),)),
    "selu": (F.selu, (wide(7),)),
    "celu": (lambda a: F.celu(a, 1.7), (wide(3, 4),)),
    "threshold": (lambda a: F.threshold(a, 0.5, -3.0), (wide(9),)),
    "silu": (F.silu, (wide(3, 5),)),
    "silu strided": (lambda a: F.silu(a[::-1, ::2]), (wide(3, 5),)),
    "silu at zero": (F.silu, (ZERO,)),
    "silu of nothing": (F.silu, (wide(2, 0),)),
    "silu of a number": (F.silu, (wide(),)),
    "mish": (F.mish, (wide(3, 5),)),
    "mish at zero": (F.mish, (ZERO,)),
    "softplus": (F.softplus, (wide(9),)),
    "softplus beta": (lambda a: F.softplus(a, 2.0, 5.0), (wide(9),)),
    "softplus at zero": (F.softplus, (ZERO,)),
    "softsign": (F.softsign, (wide(9),)),
    "logsigmoid": (F.logsigmoid, (wide(3, 3),)),
    "logsigmoid at zero": (F.logsigmoid, (ZERO,)),
    "functional sigmoid": (F.sigmoid, (wide(5),)),
    "functional tanh": (F.tanh, (wide(5),)),
    "tanhshrink": (F.tanhshrink, (wide(9),)),
    "softshrink": (lambda a: F.softshrink(a, 1.5), (wide(9),)),
    "hardshrink": (lambda a: F.hardshrink(a, 1.5), (wide(9),)),
    "hardsigmoid": (F.hardsigmoid, (wide(9),)),
    "hardswish": (F.hardswish, (wide(3, 5),)),
    "activation in place": (lambda a: F.silu(a * 2.0, inplace=True), (wide(5),)),
    "softmax": (lambda a: a.softmax(-1), (make(2, 4),)),
    "softmax dim": (lambda a: a.softmax(0), (make(3, 2),)),
    "softmax of a number": (F.softmax, (make(),)),
    "softmax middle": (lambda a: F.softmax(a, 1), (make(2, 3, 2),)),
    "log_softmax": (lambda a: a.log_softmax(), (make(2, 4),)),
    "log_softmax dim": (lambda a: F.log_softmax(a, -2), (make(2, 3, 2),)),
    "softmin": (lambda a: F.softmin(a, 0), (make(3, 2),)),
    "softmax dtype": (lambda a: F.softmax(a, -1, dtype=np.float64), (make(2, 3),)),
    "glu": (F.glu, (make(2, 6),)),
    "glu dim": (lambda a: F.glu(a, 1), (make(2, 4, 3),)),
    "glu strided": (lambda a: F.glu(a[:, ::2], 0), (make(4, 5),)),
    "glu of nothing": (F.glu, (make(0, 4),)),
    "swiglu": (F.swiglu, (make(2, 6),)),
    "swiglu of a vector": (F.swiglu, (make(4),)),
    "swiglu of two": (F.swiglu, (make(2, 3), make(2, 3, seed=1))),
    "swiglu of one twice": (lambda a: F.swiglu(a, a), (make(2, 3),)),
}  # fmt: skip
