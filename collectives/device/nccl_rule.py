"""How each reduction of each dtype is made of what NCCL has: pure data, for `nccl.py`.

NCCL adds up int8, uint8, 32- and 64-bit integers and four floats, and knows sum, prod, max, min and avg. The
rest is made of that:

==========================  =======================================================================
complex: sum, avg           as twice as many reals
bool                        as bytes: or is max, and is min, xor is the lowest bit of the sum
16-bit integers             in 32 bits, and back: what wraps around wraps around alike
floats: min, max            NaN must go through, and NCCL drops it: a second reduction, of where it is
complex prod, bits of ints  every rank combines its share of all, and gives it to all
==========================  =======================================================================
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np

from shardwise.collectives.reduction import Reduction

__all__ = ["BYTE", "CODES", "OPS", "Rule", "rule_of"]

# By NCCL's header; CuPy's names came later than some of them.
CODES = {
    np.dtype(dtype): code
    for dtype, code in (
        *((np.int8, 0), (np.uint8, 1), (np.int32, 2), (np.uint32, 3), (np.int64, 4), (np.uint64, 5)),
        *((np.float16, 6), (np.float32, 7), (np.float64, 8), (ml_dtypes.bfloat16, 9)),
    )
}
BYTE = CODES[np.dtype(np.uint8)]
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}

_BOOLS: dict[str, Reduction] = {
    "sum": "max", "max": "max", "bor": "max", "prod": "min", "min": "min", "band": "min", "bxor": "sum",
}  # fmt: skip


class Rule(NamedTuple):
    """How one reduction of one dtype is made.

    Attributes
    ----------
    how : str
        ``"native"``; ``"view"`` it as another dtype first; ``"cast"`` it to a wider one and back; ``"flag"``
        where NaN is; ``"parity"``, cast and keep the lowest bit; ``"exchange"`` and combine.
    dtype : numpy.dtype
        What NCCL sees.
    op : Reduction
        What it is asked for.
    """

    how: Literal["native", "view", "cast", "flag", "parity", "exchange"]
    dtype: np.dtype[Any]
    op: Reduction


def rule_of(dtype: np.dtype[Any], op: Reduction) -> Rule:
    """Say how NCCL reduces arrays of `dtype`."""
    if dtype == np.bool_:
        return Rule("parity" if op == "bxor" else "view", np.dtype(np.uint8), _BOOLS[op])
    if op not in OPS:
        return Rule("exchange", dtype, op)
    if dtype.kind == "c":
        real = np.dtype(f"f{dtype.itemsize // 2}")
        return Rule("view" if op in ("sum", "avg") else "exchange", real, op)
    if dtype.kind in "iu" and dtype.itemsize == 2:
        return Rule("cast", np.dtype(f"{dtype.kind}4"), op)
    known = dtype if dtype in CODES else np.dtype(f"{dtype.kind}{dtype.itemsize}")  # long long is a long
    if known not in CODES:
        return Rule("exchange", dtype, op)
    floating = dtype.kind not in "iu"
    return Rule("flag" if floating and op in ("min", "max") else "native", known, op)
