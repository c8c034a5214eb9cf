"""Reductions: which dtypes each takes, and the reference that combines parts in rank order.

Sums of float16, bfloat16 and the 8-bit floats are formed in float32 and rounded once. Combining goes
from rank 0 upwards, so a result does not depend on the transport or on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

import ml_dtypes
import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, DTypeError

__all__ = [
    "PLAIN",
    "REDUCTIONS",
    "Deterministic",
    "ReduceOp",
    "Reduction",
    "accumulate",
    "check_reduction",
    "combine",
    "divide",
]

Reduction: TypeAlias = Literal["sum", "avg", "prod", "min", "max", "band", "bor", "bxor"]

REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Deterministic: TypeAlias = Literal["by-rank-order"]


class ReduceOp:
    """The reductions by the names that PyTorch has for them: `ReduceOp.SUM` is `"sum"`."""

    SUM: Final = "sum"
    AVG: Final = "avg"
    PRODUCT: Final = "prod"
    MIN: Final = "min"
    MAX: Final = "max"
    BAND: Final = "band"
    BOR: Final = "bor"
    BXOR: Final = "bxor"


# Floats that are too narrow to add up in: combined in float32, rounded once.
_NARROW = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
    )
)

_limits: Callable[[np.dtype[Any]], np.finfo[Any]] = ml_dtypes.finfo

_BLOCK = 1 << 14  # elements

_FORMULAS: Mapping[str, np.ufunc] = MappingProxyType(
    {
        "sum": np.add,
        "avg": np.add,
        "prod": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "band": np.bitwise_and,
        "bor": np.bitwise_or,
        "bxor": np.bitwise_xor,
    }
)


PLAIN = frozenset(
    (op, np.dtype(code))
    for codes, ops in (
        ("?bhilqBHILQ", ("sum", "prod", "min", "max", "band", "bor", "bxor")),
        ("efd", ("sum", "avg", "prod", "min", "max")),
        ("FD", ("sum", "avg", "prod")),
    )
    for code in codes
    for op in ops
)


def _kind(dtype: np.dtype[Any]) -> str:
    """Give b, i, u, f or c, with the narrow floats of ml_dtypes counted as f; '?' for all others."""
    if dtype in _NARROW:
        return "f"
    return dtype.kind if dtype.kind in "biufc" else "?"


def check_reduction(op: str, dtype: np.dtype[Any], where: Callable[[], str]) -> None:
    """Raise unless `op` is a reduction that takes `dtype`.

    Parameters
    ----------
    op : str
        The reduction asked for.
    dtype : numpy.dtype
    where : callable
        Gives the beginning of a message: the operation, the rank and the group.

    Raises
    ------
    CollectiveError
        If there is no such reduction.
    DTypeError
        If it does not take this dtype.
    """
    if not isinstance(op, str):
        raise CollectiveError(
            f"{where()}: op is {type(op).__name__}, wanted one of {', '.join(REDUCTIONS)}. PyTorch's "
            f"functions that fill what is given first have other names here, or return it; see the table in "
            f"docs/how-to/from-pytorch.md."
        )
    if (op, dtype) in PLAIN:
        return
    if op not in _FORMULAS:
        raise CollectiveError(
            f"{where()}: there is no reduction op={op!r}; choose one of {', '.join(REDUCTIONS)}."
        )
    kind = _kind(dtype)
    if kind == "?":
        raise DTypeError(
            f"{where()}: dtype {dtype} cannot be reduced; wanted bool, integer, float or complex."
        )
    if op == "avg" and kind in "biu":
        raise DTypeError(
            f"{where()}: op='avg' of dtype {dtype} would not be an integer; "
            f"convert first, x.astype('float64'), or use op='sum' and divide."
        )
    if op in ("min", "max") and kind == "c":
        raise DTypeError(
            f"{where()}: op={op!r} of dtype {dtype}: complex numbers have no order; reduce abs(x)."
        )
    if op in ("band", "bor", "bxor") and kind in "fc":
        raise DTypeError(
            f"{where()}: op={op!r} of dtype {dtype}: bits of a float cannot be reduced; "
            f"wanted bool or an integer, for instance x.view('uint{8 * dtype.itemsize}')."
        )


def combine(parts: Sequence[Array], op: Reduction, out: Array) -> None:
    """Reduce `parts` in order into `out`.

    Parameters
    ----------
    parts : sequence of arrays, at least one, all of the shape and dtype of `out`
        One per rank, in rank order.
    op : Reduction
    out : array
        Filled with the result. It may be one of the first two parts; it must not overlap the others.
    """
    # Overflow to infinity is a value here, as it is in MPI and NCCL, and not a warning on one rank.
    with np.errstate(all="ignore"):
        if out.dtype not in _NARROW:
            _fold(parts, op, out)
            return
        # In blocks, so that the wide copies stay in a cache; a device has as many starts as there are blocks.
        step = _BLOCK if type(out) is np.ndarray else max(1, out.size)
        flat, flat_parts = out.reshape(-1), [part.reshape(-1) for part in parts]
        wide = [np.empty_like(flat, np.float32, shape=(min(step, flat.size),)) for _ in parts]
        for begin in range(0, flat.size, step):
            block = flat[begin : begin + step]
            for room, part in zip(wide, flat_parts, strict=True):
                np.copyto(room[: block.size], part[begin : begin + step])
            blocks = [room[: block.size] for room in wide]
            _fold(blocks, op, blocks[0])
            np.copyto(block, blocks[0], casting="unsafe")


def accumulate(
    parts: Sequence[Array], op: Reduction, outs: Sequence[Array | None], exclusive: bool = False
) -> None:
    """Reduce the first part, the first two, and so on, each into its output.

    Parameters
    ----------
    parts : sequence of arrays, all of one shape and dtype
    op : Reduction
        Not the average.
    outs : sequence of arrays or None
        Output k is filled with the reduction of the parts up to k; None where nobody asks for it. None of
        them overlaps a part.
    exclusive : bool
        Leave part k out of output k. Output 0 is then what leaves any number as it is: 0 for sums, 1 for
        products, the largest value for min, the lowest for max.
    """
    wide = np.float32 if parts[0].dtype in _NARROW else parts[0].dtype
    formula = _formula(op, parts[0].dtype)
    with np.errstate(all="ignore"):
        total = parts[0].astype(wide)
        for k, (part, out) in enumerate(zip(parts, outs, strict=True)):
            if exclusive and out is not None:
                np.copyto(out, total if k else _neutral(op, part.dtype).item(), casting="unsafe")
            if k:
                formula(total, part.astype(wide, copy=False), out=total)
            if not exclusive and out is not None:
                np.copyto(out, total, casting="unsafe")


def _neutral(op: Reduction, dtype: np.dtype[Any]) -> Array:
    """Give the value that a reduction with leaves any other as it is."""
    kind = _kind(dtype)
    if op in ("min", "max"):
        if kind == "b":
            return np.array(op == "min")
        if kind == "f":
            infinity = np.array(np.inf).astype(dtype)
            largest: Array = infinity if np.isinf(infinity) else np.asarray(_limits(dtype).max)
            return largest if op == "min" else np.negative(largest)
        bounds = np.iinfo(dtype)
        return np.array(bounds.max if op == "min" else bounds.min, dtype)
    if op == "band":
        return np.invert(np.zeros((), dtype))
    return np.array(op == "prod").astype(dtype)


def _fold(parts: Sequence[Array], op: Reduction, out: Array) -> None:
    formula = _formula(op, out.dtype)
    if len(parts) == 1:
        np.copyto(out, parts[0])
    else:
        formula(parts[0], parts[1], out=out)
    for part in parts[2:]:
        formula(out, part, out=out)
    if op == "avg":
        divide(out, len(parts))


def divide(total: Array, n: int) -> None:
    """Make the mean of the sum of n parts, in place."""
    # NumPy divides complex numbers by a complex number, with more than one rounding.
    for part in (total.real, total.imag) if total.dtype.kind == "c" else (total,):
        np.divide(part, n, out=part)


def _formula(op: Reduction, dtype: np.dtype[Any]) -> Callable[..., object]:
    return _multiply_complex if op == "prod" and dtype.kind == "c" else _FORMULAS[op]


def _multiply_complex(a: Array, b: Array, out: Array) -> None:
    # NumPy's own rounds differently at the end of an array, so that the bits would depend on who has what.
    real = a.real * b.real - a.imag * b.imag
    out.imag = a.real * b.imag + a.imag * b.real
    out.real = real
