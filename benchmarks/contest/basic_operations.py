"""Arithmetic, elementwise functions, sums and rearrangements of one matrix, bound by memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contest.operation import Operation

__all__ = ["basic_operations"]


def basic_operations(rows: int, columns: int) -> list[Operation]:
    """List them for a matrix of a size."""
    return [
        *_pointwise(rows, columns),
        *_reductions(rows, columns),
        *_moves(rows, columns),
    ]


def _pointwise(rows: int, columns: int) -> list[Operation]:
    size = (rows, columns)

    def one(name: str, method: str, saved: int = 1) -> Operation:
        return Operation(name, lambda draw: [draw.normal(*size)], lambda lib, x: getattr(x, method)(), saved)

    def activation(name: str, saved: int = 1, **options: object) -> Operation:
        function = name.partition(" ")[0]
        return Operation(
            name,
            lambda draw: [draw.normal(*size)],
            lambda lib, x: getattr(lib.F, function)(x, **options),
            saved,
        )

    return [
        Operation("add", lambda d: [d.normal(*size), d.normal(*size)], lambda lib, a, b: a + b, free=True),
        Operation("mul", lambda d: [d.normal(*size), d.normal(*size)], lambda lib, a, b: a * b, 2),
        Operation("mul by a number", lambda d: [d.normal(*size)], lambda lib, a: a * 1.5),
        Operation("add a row", lambda d: [d.normal(*size), d.normal(columns)], lambda lib, a, b: a + b),
        Operation(
            "where",
            lambda d: [d.coins(*size), d.normal(*size), d.normal(*size)],
            lambda lib, c, a, b: lib.root.where(c, a, b),
        ),
        Operation(
            "masked_fill",
            lambda d: [d.normal(*size), d.coins(*size)],
            lambda lib, a, m: a.masked_fill(m, 0.0),
        ),
        one("exp", "exp"),
        one("tanh", "tanh"),
        one("sigmoid", "sigmoid"),
        one("erf", "erf"),
        activation("relu"),
        activation("leaky_relu"),
        activation("silu"),
        activation("gelu"),
        activation("gelu tanh", approximate="tanh"),
    ]


def _reductions(rows: int, columns: int) -> list[Operation]:
    def of(name: str, call: Callable[[Any], Any], free: bool = False) -> Operation:
        return Operation(name, lambda draw: [draw.normal(rows, columns)], lambda lib, a: call(a), free=free)

    return [
        of("sum", lambda a: a.sum(), free=True),
        of("sum(0)", lambda a: a.sum(0), free=True),
        of("sum(-1)", lambda a: a.sum(-1), free=True),
        of("mean", lambda a: a.mean(), free=True),
        of("nansum", lambda a: a.nansum()),
        of("prod(-1)", lambda a: a.prod(-1)),
        of("norm", lambda a: a.norm()),
        of("max(-1)", lambda a: a.max(-1)[0]),
        of("amax(-1)", lambda a: a.amax(-1)),
        of("topk(-1)", lambda a: a.topk(min(columns, 50), -1)[0]),
        of("cumsum", lambda a: a.cumsum(-1)),
        of("cumprod", lambda a: a.cumprod(-1)),
        of("cummax", lambda a: a.cummax(-1)[0]),
    ]


def _moves(rows: int, columns: int) -> list[Operation]:
    size = (rows, columns)
    return [
        Operation("clone", lambda d: [d.normal(*size)], lambda lib, a: a.clone(), free=True),
        Operation("transpose", lambda d: [d.normal(*size)], lambda lib, a: a.t().contiguous(), free=True),
        Operation(
            "cat",
            lambda d: [d.normal(*size), d.normal(*size)],
            lambda lib, a, b: lib.root.cat([a, b]),
            free=True,
        ),
        Operation("index rows", lambda d: [d.normal(*size), d.below(rows, rows)], lambda lib, a, i: a[i]),
        Operation("to float16", lambda d: [d.normal(*size)], lambda lib, a: a.half()),
        Operation("to bfloat16", lambda d: [d.normal(*size)], lambda lib, a: a.bfloat16()),
    ]
