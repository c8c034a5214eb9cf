"""Arrays laid out as compiled code takes them: C-contiguous, aligned, seen as rows or flat."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.memory.transposition import compact

__all__ = ["as_rows", "contiguous", "integer_rows"]


def contiguous(x: Array) -> Array:
    """`x` itself if it is C-contiguous and aligned, else a copy that is.

    Unlike ``numpy.ascontiguousarray`` it keeps a 0-d array 0-d, and mends misaligned arrays (slices of
    a byte buffer), which compiled code would misread on some machines.
    """
    flags = x.flags
    if flags.c_contiguous and flags.aligned:
        return x
    copy: Array = compact(x) if flags.aligned else np.require(x, requirements=["C", "A"])
    return copy


def as_rows(x: Array) -> Array:
    """`x` as a contiguous array of shape (rows, last dim), without a copy where it can."""
    columns = x.shape[-1]
    rows = x.size // columns if columns else int(np.prod(x.shape[:-1]))
    return contiguous(x).reshape(rows, columns)


def integer_rows(index: Array) -> Array:
    """An index array of any integer dtype as a flat contiguous int64 array."""
    return contiguous(index.astype(np.int64, copy=False)).reshape(-1)
