"""Dropout with a mask that depends only on where an element lies in the global array."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError
from shardwise.backend.kernels.kernel import Kernel
from shardwise.backend.position import Place
from shardwise.backend.random import bernoulli

__all__ = ["dropout_backward", "dropout_forward", "dropout_scale"]

_FUSED = "shardwise.backend.kernels.random.dropout_cpu"
_CUDA = "shardwise.backend.kernels.random.dropout_cuda"


def dropout_scale(p: float) -> float:
    """What the elements that are kept are multiplied by; 0 where none are.

    Raises
    ------
    ArgumentError
        If `p` is not in [0, 1].
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: wanted a probability p from 0 to 1, got {p}.")
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


def _dropout_forward(x: Array, p: float, seed: int, stream: int, offset: Place) -> tuple[Array, Array]:
    """Zero each element with probability `p`, and scale the others so that the mean stays.

    Parameters
    ----------
    x : floating array, any shape
    p : float
        From 0 to 1.
    seed, stream : int
        Which random bits; taken modulo 2**64.
    offset : int or Positions
        Flat index of `x`'s first element in the global array, of which `x` is consecutive elements; or where
        each of its elements lies there.

    Returns
    -------
    y : array of `x`'s shape and dtype
    mask : array of bool, of `x`'s shape
        True where kept: the complement of ``bernoulli(x.shape, p, seed, stream, offset)``.
    """
    scale = dropout_scale(p)
    mask = np.logical_not(bernoulli(x.shape, p, seed, stream, offset, like=x))
    return np.where(mask, x * scale, 0.0), mask


def _dropout_backward(g: Array, mask: Array, p: float) -> Array:
    """The gradient of :func:`dropout_forward`, from its mask."""
    return np.where(mask, g * dropout_scale(p), 0.0)


dropout_forward = Kernel(
    _dropout_forward, f"{_FUSED}:dropout_forward", arrays=1, cuda=f"{_CUDA}:dropout_forward"
)
dropout_backward = Kernel(
    _dropout_backward,
    f"{_FUSED}:dropout_backward",
    arrays=2,
    integer="mask",
    cuda=f"{_CUDA}:dropout_backward",
)
