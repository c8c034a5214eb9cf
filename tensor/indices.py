"""Where the elements of triangles are."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, DTypeLike
from shardwise.backend.select import get_backend
from shardwise.tensor.tensor import Tensor

__all__ = ["tril_indices", "triu_indices"]


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = np.int64, device: str | None = None
) -> Tensor:
    """Return where a matrix has its lower triangle: the rows and the columns, shape (2, elements).

    Parameters
    ----------
    row, col : int
        Size of the matrix.
    offset : int, default 0
        Number of the last diagonal that counts.
    dtype : dtype, default int64
    device : str, optional

    Examples
    --------
    >>> tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _stacked(np.tri(row, col, offset, dtype=bool), dtype, device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = np.int64, device: str | None = None
) -> Tensor:
    """Return where a matrix has its upper triangle, from diagonal `offset` on; see `tril_indices`."""
    return _stacked(~np.tri(row, col, offset - 1, dtype=bool), dtype, device)


def _stacked(mask: Array, dtype: DTypeLike, device: str | None) -> Tensor:
    return Tensor(get_backend(device or "cpu").asarray(np.stack(mask.nonzero()).astype(dtype)))
