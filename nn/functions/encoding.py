"""Classes as vectors."""

from __future__ import annotations

import numpy as np

from shardwise.backend.errors import ArgumentError, DTypeError
from shardwise.nn.check import check_tensors
from shardwise.tensor import Tensor
from shardwise.tensor.ops import encoding as op

__all__ = ["one_hot"]


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return, along a new last dim, 1 at the place that each integer names, and 0 elsewhere.

    Parameters
    ----------
    input : Tensor of integers, any shape
    num_classes : int
        Length of the new dim; one more than the largest integer if -1.

    Returns
    -------
    Tensor of int64, shape (*input.shape, num_classes)

    Raises
    ------
    IndexRangeError
        An integer is not in [0, `num_classes`).
    DataDependentShapeError
        On arrays without data, if `num_classes` is -1.

    Examples
    --------
    >>> import shardwise as sw
    >>> one_hot(sw.tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    check_tensors("one_hot", input=input)
    if input.dtype.kind not in "iu":
        raise DTypeError(f"one_hot: wanted integers, not {input.dtype}; cast with long()")
    if num_classes == -1:
        if not input.numel():
            raise ArgumentError("one_hot: no integers to tell the number of classes from; give num_classes")
        num_classes = int(np.max(input.data)) + 1
    if num_classes < 1:
        raise ArgumentError(f"one_hot: num_classes must be at least 1, or -1, got {num_classes}")
    return op.OneHot.apply(input, classes=num_classes)
