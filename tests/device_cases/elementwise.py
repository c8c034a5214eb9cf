"""Cases of functions of single elements, of gates and of dropout."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np

from device_cases.case import RNG, Case, normal
from shardwise.backend.kernels.activation.activation import (
    erf,
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
)
from shardwise.backend.kernels.activation.gate import (
    glu_backward,
    glu_forward,
    swiglu_backward,
    swiglu_forward,
)
from shardwise.backend.kernels.pointwise_table import POINTWISE_KERNELS
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward

__all__ = ["dropouts", "formulas", "gates", "pointwise"]

_EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 30.0, -30.0, 200.0, -200.0, 11.0, -11.0, 1.0, -0.5]
)


def pointwise() -> Iterator[tuple[str, Case]]:
    inputs = {
        "any": normal(3, 4, 5),
        "long": normal(5003),
        "transposed": normal(6, 7).T,
        "strided": normal(40)[::-3],
        "none": normal(0, 3),
        "one": np.array(0.5),
        "edges": _EDGES,
    }
    for name, x in inputs.items():
        g = np.where(np.isfinite(x), x, 1.0) + 0.5 if name == "edges" else normal(*x.shape)
        for kernel in (erf, gelu_forward, gelu_tanh_forward):
            if name != "edges" or kernel is not gelu_forward:
                yield name, Case(kernel, (x,))
        for kernel in (gelu_backward, gelu_tanh_backward):
            yield name, Case(kernel, (g, x))


def formulas() -> Iterator[tuple[str, Case]]:
    """Kernels that are made of their formulas: any numbers will do, those that are bounds in rising order."""
    shapes = {
        "any": [(3, 4, 5)] * 3,
        "long": [(5003,)] * 3,
        "broadcast": [(2, 3, 4), (3, 1), (4,)],
        "one": [(), (1, 5), (1, 1)],
        "none": [(0, 3)] * 3,
    }
    for kernel in POINTWISE_KERNELS:
        names = list(inspect.signature(kernel.plain).parameters)
        arrays = [name for name in names if name in kernel._array_names]
        numbers = np.linspace(0.3, 1.1, len(names) - len(arrays)).tolist()
        for label, sizes in shapes.items():
            given = [normal(*size) for size, _ in zip(sizes, arrays, strict=False)]
            masked = [x > 0.0 if name == "mask" else x for name, x in zip(arrays, given, strict=True)]
            yield label, Case(kernel, (*masked, *numbers), scale=0.1)
        special = [np.roll(_EDGES, 5 * i) for i in range(len(arrays))]
        masked = [x > 0.0 if name == "mask" else x for name, x in zip(arrays, special, strict=True)]
        yield "edges", Case(kernel, (*masked, *numbers), scale=0.1)


def gates() -> Iterator[tuple[str, Case]]:
    for shape in ((3, 4), (2, 6, 5), (2, 3, 32), (0, 4), (2, 1000)):
        x = 3.0 * normal(*shape)
        x.flat[:3] = np.array([-np.inf, np.inf, 200.0])[: x.size]
        g = normal(*shape[:-1], shape[-1] // 2)
        name = "x".join(map(str, shape))
        if shape[-1] % 2 == 0:
            yield name, Case(swiglu_forward, (x,))
            yield name, Case(swiglu_backward, (g, x))
        for dim in range(-1, len(shape) - 1):
            if shape[dim] % 2 == 0:
                half = normal(*(n // 2 if i == dim % len(shape) else n for i, n in enumerate(shape)))
                yield f"{name} along {dim}", Case(glu_forward, (x, dim))
                yield f"{name} along {dim}", Case(glu_backward, (half, x, dim), scale=100.0)


def dropouts() -> Iterator[tuple[str, Case]]:
    for offset in (0, 1, 3, 2**33 + 2):
        for size in (1, 7, 1000):
            name, x = f"{size} from {offset}", normal(size)
            yield name, Case(dropout_forward, (x, 0.3, -5, 2**40 + 7, offset))
            yield name, Case(dropout_backward, (x, RNG.random(size) < 0.5, 0.3))
    for p in (0.0, 1.0):
        yield f"p = {p}", Case(dropout_forward, (normal(3, 4), p, 1, 2, 0))
        yield f"p = {p}", Case(dropout_backward, (normal(3, 4), normal(3, 4) > 0.0, p))
    yield "none", Case(dropout_forward, (normal(0), 0.5, 1, 2, 0))
    yield "transposed", Case(dropout_forward, (normal(5, 4).T, 0.5, 1, 2, 9))
