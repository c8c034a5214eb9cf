"""Calls of what writes into chosen places, in float64, small enough for finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shardwise as sw
from cases.complex_number import make_complex
from cases.operand import INDEX, Case, make
from cases.selection import MASK, ROWS

__all__ = ["CASES"]

ONCE = np.array([[0, 2], [1, 0]])
"""An index along the last of (2, 3), which names each place once."""


def assign(key: Any) -> Callable[..., Any]:
    """Assignment to a copy, so that the tensor itself may be a leaf."""

    def run(a: Any, *value: Any) -> Any:
        out = a * 1.0
        out[key] = value[0] if value else 2.5
        return out * a

    return run


def into(method: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """An in-place method, called on a copy with the last tensor as its last argument."""

    def run(a: Any, *source: Any) -> Any:
        out = a * 1.0
        assert getattr(out, method)(*args, *source, **options) is out
        return out * 2.0

    return run


CASES: dict[str, Case] = {
    "assign a slice": (assign((slice(1, None), 0)), (make(3, 2), make(2))),
    "assign a number": (assign(1), (make(3, 2),)),
    "assign backwards": (assign((Ellipsis, slice(None, None, -1))), (make(2, 3), make(3))),
    "assign broadcast": (assign(slice(0, 2)), (make(3, 2), make(1, 1, 2))),
    "assign no dims": (assign(()), (make(), make(seed=1))),
    "assign rows": (assign(np.array([2, 0])), (make(3, 2), make(2, 2))),
    "assign rows twice": (assign(ROWS), (make(2, 2), make(3, 2))),
    "assign rows twice, one value": (assign(ROWS), (make(2, 2), make(2))),
    "assign places": (assign((ROWS, [0, 1, 1])), (make(2, 2), make(3))),
    "assign places twice": (assign((slice(None), ROWS)), (make(2, 2, 2), make(2, 3, 1))),
    "assign apart": (assign((ROWS, slice(None), np.array([0, 1, 1]))), (make(2, 2, 2), make(3, 2))),
    "assign apart by dots for no dim": (assign((slice(None), ROWS, ..., 1)), (make(2, 2, 2), make(3, 2))),
    "assign a mask": (assign(MASK), (make(2, 3), make(3))),
    "assign a mask, one value": (assign(MASK), (make(2, 3), make())),
    "assign a mask, a number": (assign(MASK), (make(2, 3),)),
    "assign into zeros": (lambda v: _filled(v), (make(3),)),
    "assign in steps": (lambda a: _shifted(a), (make(4),)),
    "scatter": (lambda a, s: a.scatter(1, sw.tensor(ONCE), s), (make(2, 3), make(2, 2))),
    "scatter twice": (lambda a, s: a.scatter(1, INDEX, s), (make(2, 3), make(2, 3, seed=1))),
    "scatter fewer": (lambda a, s: a.scatter(0, INDEX[:, :2], s), (make(3, 4), make(2, 3))),
    "scatter a number": (lambda a: a.scatter(-1, sw.tensor(ONCE), 1.5), (make(2, 3),)),
    "scatter adding": (lambda a, s: a.scatter(1, INDEX, s, reduce="add"), (make(2, 3), make(2, 3, seed=1))),
    "scatter no dims": (lambda a, s: a.scatter(0, sw.tensor(0), s), (make(), make(seed=1))),
    "scatter_add": (lambda a, s: a.scatter_add(1, sw.tensor(INDEX), s), (make(2, 3), make(2, 3, seed=1))),
    "scatter_add fewer": (lambda a, s: a.scatter_add(0, INDEX[:1], s), (make(3, 4), make(2, 3))),
    "scatter_add none": (lambda a, s: a.scatter_add(0, np.zeros((0, 2), int), s), (make(3, 2), make(0, 2))),
    **{
        f"scatter_reduce {reduce}{'' if include_self else ' alone'}": (
            lambda a, s, reduce=reduce, include_self=include_self: a.scatter_reduce(
                1, INDEX, s, reduce, include_self=include_self
            ),
            (make(2, 3), make(2, 3, seed=1)),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    },
    "scatter_reduce fewer": (
        lambda a, s: a.scatter_reduce(0, INDEX[:, :2], s, "prod"),
        (make(3, 4, low=1.0), make(2, 2, low=1.0)),
    ),
    "index_add": (lambda a, s: a.index_add(1, sw.tensor(ROWS), s), (make(2, 3), make(2, 3, seed=1))),
    "index_add alpha": (lambda a, s: a.index_add(0, ROWS, s, alpha=-2), (make(2, 2), make(3, 2))),
    "index_add itself": (lambda a: a.index_add(0, ROWS, a[ROWS]), (make(2, 2),)),
    "index_copy": (lambda a, s: a.index_copy(-1, sw.tensor([2, 0]), s), (make(2, 3), make(2, 2))),
    "index_copy twice": (lambda a, s: a.index_copy(0, ROWS, s), (make(2, 2), make(3, 2))),
    "index_fill": (lambda a: a.index_fill(1, sw.tensor([0, 2]), 1.5), (make(2, 3),)),
    "index_fill a tensor": (lambda a, v: a.index_fill(0, ROWS, v), (make(2, 3), make())),
    "put": (lambda a, s: a.put(sw.tensor([[4, -1]]), s), (make(2, 3), make(1, 2))),
    "put twice": (lambda a, s: a.put([0, 5, 0], s), (make(2, 3), make(3))),
    "put adding": (lambda a, s: a.put([0, 5, 0], s, accumulate=True), (make(2, 3), make(3))),
    "index_put": (lambda a, s: a.index_put((ROWS,), s), (make(2, 2), make(2))),
    "index_put adding": (
        lambda a, s: a.index_put((ROWS, ROWS), s, accumulate=True),
        (make(2, 2), make()),
    ),
    "masked_scatter": (lambda a, s: a.masked_scatter(sw.tensor(MASK), s), (make(2, 3), make(2, 2))),
    "masked_scatter broadcast": (lambda a, s: a.masked_scatter(MASK, s), (make(3), make(5))),
    "complex assign": (assign(ROWS), (make_complex(2, 2), make_complex(3, 2))),
    "complex assign a real value": (assign((slice(None), 0)), (make_complex(2, 2), make(2))),
    "complex scatter_add": (
        lambda a, s: a.scatter_add(1, INDEX, s),
        (make_complex(2, 3), make_complex(2, 3, seed=1)),
    ),
    "complex scatter_reduce prod": (
        lambda a, s: a.scatter_reduce(1, INDEX, s, "prod"),
        (make_complex(2, 3), make_complex(2, 3, seed=1)),
    ),
    "scatter_": (into("scatter_", 1, ONCE), (make(2, 3), make(2, 2))),
    "scatter_add_": (into("scatter_add_", 1, INDEX), (make(2, 3), make(2, 3, seed=1))),
    "scatter_reduce_": (into("scatter_reduce_", 1, INDEX, reduce="mean"), (make(2, 3), make(2, 3, seed=1))),
    "index_add_": (into("index_add_", 0, ROWS, alpha=3.0), (make(2, 2), make(3, 2))),
    "index_copy_": (into("index_copy_", 0, ROWS), (make(2, 2), make(3, 2))),
    "index_fill_": (into("index_fill_", 0, [0], 2.0), (make(2, 2),)),
    "masked_scatter_": (into("masked_scatter_", MASK), (make(2, 3), make(4))),
    "put_": (into("put_", [1, 1]), (make(2, 3), make(2))),
    "index_put_": (into("index_put_", (ROWS,), accumulate=True), (make(2, 2), make(3, 1))),
}  # fmt: skip


def _filled(v: Any) -> Any:
    """A buffer that is written row by row."""
    buffer = np.zeros_like(v.detach(), shape=(2, 3))
    for i in range(2):
        buffer[i] = v * float(i + 2)
    return buffer


def _shifted(a: Any) -> Any:
    """Each element from the one in front of it, as a recurrence writes them."""
    out = a * 1.0
    for i in range(1, 4):
        out[i] = out[i - 1].clone() * a[i]
    return out
