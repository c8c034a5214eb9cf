"""Indices that point into a dim, checked."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, IndexRangeError

__all__ = ["check_index"]


def check_index(op: str, index: Array, size: int, dim: int, negative: bool = False) -> None:
    """Raise if `index` holds no integers, or points outside a dim.

    Values are looked at on the CPU only: a GPU would have to wait for the answer.

    Parameters
    ----------
    op : str
        For the message.
    index : array
    size, dim : int
        Of the dim, and which it is.
    negative : bool, default False
        Whether negative indices count from the end.

    Raises
    ------
    DTypeError
        If the dtype is not an integer one.
    IndexRangeError
        Names the first index that is out of range, its place, and the size.
    """
    if index.dtype.kind not in "iu":
        raise DTypeError(f"{op}: the index must be integers, not {index.dtype}; cast with long()")
    if not isinstance(index, np.ndarray) or index.size == 0:
        return
    lowest = -size if negative else 0
    if int(index.min()) >= lowest and int(index.max()) < size:
        return
    flat = index.reshape(-1)
    first = int(np.argmax((flat < lowest) | (flat >= size)))
    place = ", ".join(str(int(i)) for i in np.unravel_index(first, index.shape))
    where = f"index[{place}]" if place else "the index"
    raise IndexRangeError(
        f"{op}: {where} is {int(flat[first])}, out of range for dim {dim} of size {size}; wanted {lowest} to "
        f"{size - 1}"
    )
