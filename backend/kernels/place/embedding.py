"""The gradient of an embedding: rows of a table that were looked up."""

from __future__ import annotations

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.errors import DTypeError, IndexRangeError, ShapeError
from shardwise.backend.kernels.kernel import Kernel

__all__ = ["check_rows", "embedding_backward"]


def check_rows(name: str, index: Array, rows: int) -> None:
    """Raise if `index` holds no integers, or points outside a table of `rows` rows.

    Values are looked at on the CPU only: a GPU would have to wait for the answer.

    Raises
    ------
    DTypeError
        If the dtype is not an integer one.
    IndexRangeError
        Says, in the name of `name`, which entry is the first.
    """
    if index.dtype.kind not in "iu":
        raise DTypeError(
            f"{name}: wanted integers as indices, got {index.dtype}. Convert them with astype(numpy.int64)."
        )
    if type(index) is not np.ndarray or index.size == 0:
        return
    if int(index.min()) >= 0 and int(index.max()) < rows:
        return
    flat = index.reshape(-1)
    first = int(np.argmax((flat < 0) | (flat >= rows)))
    place = ", ".join(str(int(i)) for i in np.unravel_index(first, index.shape))
    raise IndexRangeError(
        f"{name}: index[{place}] is {int(flat[first])}, and the table has {rows} rows: wanted 0 to "
        f"{rows - 1}. Check the vocabulary size against the token ids."
    )


def _embedding_backward(g: Array, index: Array, rows: int) -> Array:
    """Add the gradient of each looked-up row to its row of the table.

    Parameters
    ----------
    g : floating array, shape (*index.shape, features)
    index : integer array, any shape
        The rows that were looked up, each in ``[0, rows)``.
    rows : int
        How many rows the table has.

    Returns
    -------
    array, shape (rows, features)
        Rows that were not looked up are 0. Additions are made in the order of `index`.

    Raises
    ------
    DTypeError
        If `index` does not hold integers.
    ShapeError
        If `g` does not have `index`'s shape and one dim more.
    IndexRangeError
        If an index is out of range (on the CPU).
    """
    if tuple(g.shape[:-1]) != tuple(index.shape):
        raise ShapeError(
            f"embedding_backward: the index has shape {tuple(index.shape)}, so the gradient should have "
            f"that and one dim more, and it has shape {tuple(g.shape)}."
        )
    check_rows("embedding_backward", index, rows)
    return special.scatter_add((rows, g.shape[-1]), index, g)


embedding_backward = Kernel(
    _embedding_backward,
    "shardwise.backend.kernels.place.embedding_cpu:embedding_backward",
    arrays=2,
    integer="index",
    cuda="shardwise.backend.kernels.place.scatter_cuda:embedding_backward",
)
