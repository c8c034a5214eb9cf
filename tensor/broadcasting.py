"""The adjoint of broadcasting, written once for arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.kernels.reduction.total import sum_over
from shardwise.tensor.narrow import is_narrow

__all__ = ["unbroadcast"]


def unbroadcast(grad: Any, shape: tuple[int, ...]) -> Any:
    """Sum `grad` down to `shape`, from which it was broadcast.

    Parameters
    ----------
    grad : Array or Tensor
        Of a shape that `shape` broadcasts to.
    shape : tuple of int
    """
    extra = grad.ndim - len(shape)
    dims = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and grad.shape[i + extra] != 1
    )
    if dims:
        if is_narrow(grad):  # 256 ones are as much as bfloat16 can add up
            grad = np.sum(grad, axis=dims, keepdims=True, dtype=np.float32).astype(grad.dtype)
        else:
            grad = (
                sum_over(grad, dims) if type(grad) is np.ndarray else np.sum(grad, axis=dims, keepdims=True)
            )
    return np.reshape(grad, shape)
