"""Reductions: which dtypes each takes, and the reference that combines parts in rank order.

Sums of float16, bfloat16 and the 8-bit floats are formed in float32 and rounded once. Combining goes
from rank 0 upwards, so a result does not depend on the transport or on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import ml_dtypes
import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError, DTypeError

__all__ = ["REDUCTIONS", "ReduceOp", "check_reduction", "combine"]

ReduceOp: TypeAlias = Literal["sum", "avg", "prod", "min", "max", "band", "bor", "bxor"]

REDUCTIONS: tuple[ReduceOp, ...] = get_args(ReduceOp)

# Floats that are too narrow to add up in: combined in float32, rounded once.
_NARROW = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    )
)

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


# Looked at first, since the whole check takes as long as a small reduction.
_TAKEN = frozenset(
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
    if (op, dtype) in _TAKEN:
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


def combine(parts: Sequence[Array], op: ReduceOp, out: Array) -> None:
    """Reduce `parts` in order into `out`.

    Parameters
    ----------
    parts : sequence of arrays, at least one, all of the shape and dtype of `out`
        One per rank, in rank order.
    op : ReduceOp
    out : array
        Filled with the result. It may be one of the first two parts; it must not overlap the others.
    """
    # Overflow to infinity is a value here, as it is in MPI and NCCL, and not a warning on one rank.
    with np.errstate(all="ignore"):
        if out.dtype not in _NARROW:
            _fold(parts, op, out)
            return
        # In blocks, so that the wide copies stay in a cache.
        flat, flat_parts = out.reshape(-1), [part.reshape(-1) for part in parts]
        wide = [np.empty(min(_BLOCK, flat.size), np.float32) for _ in parts]
        for begin in range(0, flat.size, _BLOCK):
            block = flat[begin : begin + _BLOCK]
            for room, part in zip(wide, flat_parts, strict=True):
                np.copyto(room[: block.size], part[begin : begin + _BLOCK])
            blocks = [room[: block.size] for room in wide]
            _fold(blocks, op, blocks[0])
            np.copyto(block, blocks[0], casting="unsafe")


def _fold(parts: Sequence[Array], op: ReduceOp, out: Array) -> None:
    formula = _FORMULAS[op]
    if len(parts) == 1:
        np.copyto(out, parts[0])
    else:
        formula(parts[0], parts[1], out=out)
    for part in parts[2:]:
        formula(out, part, out=out)
    if op == "avg":
        np.divide(out, len(parts), out=out)
