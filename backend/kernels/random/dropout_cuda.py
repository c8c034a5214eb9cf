"""CUDA dropout; the formulas are in ``dropout.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import Launcher, contiguous, each, empty
from shardwise.backend.kernels.random.dropout import dropout_scale
from shardwise.backend.position import Grid, Place, grid_of
from shardwise.backend.random import bernoulli_threshold

__all__ = ["dropout_backward", "dropout_forward", "launch"]

launch = Launcher(DeviceSource("random/dropout.cu"))

_WORDS = 2**64


def dropout_forward(x: Array, p: float, seed: int, stream: int, offset: Place) -> tuple[Array, Array]:
    first = grid_of(offset, x.shape)
    if isinstance(first, Grid):  # in several runs: by the formula
        return NotImplemented
    if first < 0:
        raise ArgumentError(f"dropout: wanted an offset of 0 or more, got {first}.")
    scale, threshold = dropout_scale(p), bernoulli_threshold("dropout", p)
    x = contiguous(x)
    y, mask = empty(x, x.shape), empty(x, x.shape, np.bool_)
    launch(
        "dropout_forward",
        x.dtype,
        each(x.size + 3, 4),
        *(x, y, mask, np.uint64(seed % _WORDS), np.uint64(stream % _WORDS), first, threshold, scale, x.size),
    )
    return y, mask


def dropout_backward(g: Array, mask: Array, p: float) -> Array:
    scale = dropout_scale(p)
    if g.shape != mask.shape:
        raise ShapeError(
            f"dropout: the gradient has shape {g.shape}, and the mask {mask.shape}; wanted the same."
        )
    g, mask = contiguous(g), contiguous(mask.astype(np.bool_, copy=False))
    dx = empty(g, g.shape)
    launch("dropout_backward", g.dtype, each(g.size, g.itemsize), g, mask, scale, dx, g.size)
    return dx
