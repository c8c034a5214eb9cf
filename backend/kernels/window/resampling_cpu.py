"""Fused weighted sums along one dim for NumPy arrays; the formulas are in ``resampling.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous

__all__ = ["resample_backward", "resample_forward"]


def resample_forward(x: Array, index: Array, weight: Array) -> Array:
    out = np.zeros((x.shape[0], index.shape[1], x.shape[2]), x.dtype)
    _forward(contiguous(x), _integers(index), contiguous(weight), out)
    return out


def resample_backward(g: Array, index: Array, weight: Array, size: int) -> Array:
    dx = np.zeros((g.shape[0], size, g.shape[2]), g.dtype)
    _backward(contiguous(g), _integers(index), contiguous(weight), dx)
    return dx


def _integers(index: Array) -> Array:
    return contiguous(index.astype(np.int64, copy=False))


@fused(lambda real: (read(real, 3), read(int64, 2), read(real, 2), write(real, 3)))
def _forward(x: Array, index: Array, weight: Array, out: Array) -> None:
    taps, m = index.shape
    inner = x.shape[2]
    for i in range(x.shape[0]):
        for tap in range(taps):
            if inner == 1:  # along the row
                row, result = x[i].reshape(-1), out[i].reshape(-1)
                for o in range(m):
                    result[o] += weight[tap, o] * row[index[tap, o]]
            else:
                for o in range(m):
                    factor, row, result = weight[tap, o], x[i, index[tap, o]], out[i, o]
                    for p in range(inner):
                        result[p] += factor * row[p]


@fused(lambda real: (read(real, 3), read(int64, 2), read(real, 2), write(real, 3)))
def _backward(g: Array, index: Array, weight: Array, dx: Array) -> None:
    taps, m = index.shape
    inner = g.shape[2]
    for i in range(g.shape[0]):
        for tap in range(taps):
            for o in range(m):
                factor, row, result = weight[tap, o], g[i, o], dx[i, index[tap, o]]
                for p in range(inner):
                    result[p] += factor * row[p]
