"""Classes as vectors."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients
from shardwise.tensor.ops.bound import check_index

__all__ = ["OneHot"]


class OneHot(Function):
    """Along a new last dim, 1 at the place that each integer names, and 0 elsewhere."""

    signature = "...->...[c]"

    @staticmethod
    def forward(ctx: Context, index: Array, classes: int) -> Array:
        check_index("one_hot", index, classes, index.ndim)
        return np.equal(np.expand_dims(index, -1), np.arange(classes, like=index)).astype(np.int64)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        return (None,)
