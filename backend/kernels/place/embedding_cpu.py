"""Fused gradient of an embedding for NumPy arrays; the formula is in ``embedding.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, integer_rows
from shardwise.backend.kernels.place.embedding import check_rows

__all__ = ["embedding_backward"]


def embedding_backward(g: Array, index: Array, rows: int) -> Array:
    if g.shape[:-1] != index.shape:
        raise ShapeError(
            f"embedding_backward: the index has shape {index.shape}, so the gradient should have "
            f"that and one dim more, and it has shape {g.shape}."
        )
    check_rows("embedding_backward", index, rows)
    dweight = np.zeros((rows, g.shape[-1]), g.dtype)
    _scatter_rows(as_rows(g), integer_rows(index), dweight)
    return dweight


@fused(lambda real: (read(real, 2), read(int64, 1), write(real, 2)))
def _scatter_rows(g: Array, index: Array, dweight: Array) -> None:
    for i in range(index.size):
        row, total = g[i], dweight[index[i]]
        for j in range(row.size):
            total[j] += row[j]
