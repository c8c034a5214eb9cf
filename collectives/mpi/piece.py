"""Arrays as the bytes and pieces that one message of MPI can count."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array

__all__ = ["CHUNK", "as_bytes", "cut"]

CHUNK = 1 << 30  # bytes of the largest message


def cut(x: Array, nbytes: int) -> list[Array]:
    """Cut into flat views of at most `nbytes`; what fits, empty arrays too, is one piece as it is."""
    if x.nbytes <= nbytes:
        return [x]
    flat, step = x.reshape(-1), max(1, nbytes // x.dtype.itemsize)
    return [flat[begin : begin + step] for begin in range(0, flat.size, step)]


def as_bytes(x: Array) -> Array:
    """See the memory of a contiguous array as bytes."""
    return x.reshape(-1).view(np.uint8)
