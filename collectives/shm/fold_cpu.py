"""Reductions of several ranks' elements at addresses, in rank order: one compiled loop per op and dtype.

Elements are combined exactly as `reduction.combine` does, so that a result has the same bits whether it was
made here or by NumPy. Complex sums and means are those of twice as many floats. What has no loop is left to
MPI.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from shardwise.backend.dtypes import bfloat16
from shardwise.backend.kernels.jit import device
from shardwise.collectives.reduction import Reduction
from shardwise.collectives.shm.compiled_cpu import Compiled

__all__ = ["BLOCK", "Fold", "fold_of"]

BLOCK = 8192
"""Bytes of the target that one call is given at most; they stay in the first cache."""

# What has more bytes, and what NumPy does not have itself, comes behind it by number.
_LAST = np.dtype(np.float64).num

_SOURCES = (Path(__file__),)
_WIDE = BLOCK // 2  # elements of the narrowest float in a block

_HALF = platform.machine() == "aarch64" or bool(llvmlite.binding.get_host_cpu_features().get("f16c", False))

_Built = tuple[Any, Callable[..., Any]]
_Formula = Callable[[Any, Any], Any]


class Fold(NamedTuple):
    """The address of a compiled loop, and the bytes of what it counts as one element."""

    address: int
    width: int


def fold_of(op: Reduction, dtype: np.dtype[Any]) -> Fold | None:
    """Give the loop that reduces elements of `dtype` by `op`, compiled now if need be; None if there is none.

    Raises
    ------
    FusedUnavailableError
        If it cannot be compiled.
    """
    if dtype.kind == "c" and op in ("sum", "avg") and dtype.itemsize <= 16:
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    key = (op, dtype)
    found = _made.get(key)
    if found is None:
        made = _make(op, dtype)
        if made is None:
            return None
        found = _made[key] = Fold(made.address, dtype.itemsize)
    return found


_made: dict[tuple[str, np.dtype[Any]], Fold] = {}  # a compiled loop is what it is, like a loaded module


def _make(op: Reduction, dtype: np.dtype[Any]) -> Compiled | None:
    name = f"fold_{op}_{dtype}"
    average = op == "avg"
    if dtype == np.float16 and _HALF:
        return Compiled(_narrow(_FORMULAS["float"][op], _from_half, _to_half, average), name, 4, _SOURCES)
    if dtype == bfloat16:
        return Compiled(_narrow(_FORMULAS["float"][op], _from_brain, _to_brain, average), name, 4, _SOURCES)
    kind = "bool" if dtype == np.bool_ else {"i": "int", "u": "int", "f": "float"}.get(dtype.kind, "")
    # By number: equal dtypes may be other objects, such as those made by newbyteorder(), but all have a loop.
    if not kind or dtype.num > _LAST or dtype == np.float16:
        return None
    element = numba.np.numpy_support.from_dtype(np.dtype(np.uint8) if kind == "bool" else dtype)
    formula = _FORMULAS[kind].get(op)
    if formula is None:
        return None
    return Compiled(_plain(formula, _pointer(element), dtype.type, average), name, 4, _SOURCES)


@device(exact=True)
def _sum(a: Any, b: Any) -> Any:
    return a + b


@device(exact=True)
def _product(a: Any, b: Any) -> Any:
    return a * b


@device(exact=True)
def _least(a: Any, b: Any) -> Any:
    return a if a < b else b


@device(exact=True)
def _most(a: Any, b: Any) -> Any:
    return a if a > b else b


@device(exact=True)
def _least_float(a: Any, b: Any) -> Any:
    return a if (a < b) | (a != a) else b  # NaN goes through


@device(exact=True)
def _most_float(a: Any, b: Any) -> Any:
    return a if (a > b) | (a != a) else b


@device(exact=True)
def _and(a: Any, b: Any) -> Any:
    return a & b


@device(exact=True)
def _or(a: Any, b: Any) -> Any:
    return a | b


@device(exact=True)
def _differ(a: Any, b: Any) -> Any:
    return a ^ b


_FORMULAS: dict[str, dict[str, _Formula]] = {
    # as bytes of 0 and 1; NumPy adds bools by or and multiplies them by and
    "bool": {
        "sum": _or,
        "max": _or,
        "bor": _or,
        "prod": _and,
        "min": _and,
        "band": _and,
        "bxor": _differ,
    },
    "int": {
        "sum": _sum,
        "prod": _product,
        "min": _least,
        "max": _most,
        "band": _and,
        "bor": _or,
        "bxor": _differ,
    },
    "float": {
        "sum": _sum,
        "avg": _sum,
        "prod": _product,
        "min": _least_float,
        "max": _most_float,
    },
}


def _pointer(element: Any) -> Callable[[int], Any]:
    """Make the function that makes a pointer to such elements of an address."""
    kind = numba.types.CPointer(element)

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(context: Any, address: Any) -> _Built:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(kind))

        return kind(numba.types.int64), build

    made: Callable[[int], Any] = pointer
    return made


_numbers, _words = _pointer(numba.types.int64), _pointer(numba.types.uint16)


def _plain(
    formula: _Formula, pointer: Callable[[int], Any], kind: type[np.generic], average: bool
) -> Callable[..., int]:
    def fold_and_divide(target: int, sources: int, number: int, count: int) -> int:
        places = numba.carray(_numbers(sources), number)
        out = numba.carray(pointer(target), count)
        a = numba.carray(pointer(places[0]), count)
        b = numba.carray(pointer(places[1]), count)
        for i in range(count):
            out[i] = formula(a[i], b[i])
        for rank in range(2, number):
            c = numba.carray(pointer(places[rank]), count)
            for i in range(count):
                out[i] = formula(out[i], c[i])
        divisor = kind(number)
        for i in range(count):
            out[i] = out[i] / divisor
        return 0

    def fold(target: int, sources: int, number: int, count: int) -> int:
        places = numba.carray(_numbers(sources), number)
        out = numba.carray(pointer(target), count)
        a = numba.carray(pointer(places[0]), count)
        b = numba.carray(pointer(places[1]), count)
        for i in range(count):
            out[i] = formula(a[i], b[i])
        for rank in range(2, number):
            c = numba.carray(pointer(places[rank]), count)
            for i in range(count):
                out[i] = formula(out[i], c[i])
        return 0

    return fold_and_divide if average else fold


def _narrow(
    formula: _Formula, widen: Callable[[Any], Any], narrow: Callable[[Any], Any], average: bool
) -> Callable[..., int]:
    def fold(target: int, sources: int, number: int, count: int) -> int:
        places = numba.carray(_numbers(sources), number)
        out = numba.carray(_words(target), count)
        total = np.empty(_WIDE, np.float32)
        a = numba.carray(_words(places[0]), count)
        b = numba.carray(_words(places[1]), count)
        for i in range(count):
            total[i] = formula(widen(a[i]), widen(b[i]))
        for rank in range(2, number):
            c = numba.carray(_words(places[rank]), count)
            for i in range(count):
                total[i] = formula(total[i], widen(c[i]))
        if average:
            for i in range(count):
                total[i] = total[i] / np.float32(number)
        for i in range(count):
            out[i] = narrow(total[i])
        return 0

    return fold


@intrinsic  # type: ignore[untyped-decorator]
def _to_half(context: Any, x: Any) -> _Built:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return numba.types.uint16(numba.types.float32), build


@intrinsic  # type: ignore[untyped-decorator]
def _from_half(context: Any, x: Any) -> _Built:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return numba.types.float32(numba.types.uint16), build


@device(exact=True)
def _from_brain(word: Any) -> Any:
    return np.uint32(np.uint32(word) << np.uint32(16)).view(np.float32)


@device(exact=True)
def _to_brain(x: Any) -> Any:
    word = np.float32(x).view(np.uint32)
    last = np.uint32((word >> np.uint32(16)) & np.uint32(1))
    rounded = np.uint32(word + np.uint32(0x7FFF) + last) >> np.uint32(16)
    return np.uint16(rounded | (np.uint32(0x7FC0) if x != x else np.uint32(0)))
