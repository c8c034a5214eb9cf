"""Fused dropout for NumPy arrays; the formulas are in ``dropout.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.kernels.jit import boolean, float64, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.random.dropout import dropout_scale
from shardwise.backend.kernels.random.random_cpu import CHUNK, fill, runs
from shardwise.backend.philox import split_64
from shardwise.backend.position import Grid, Place, grid_of
from shardwise.backend.random import bernoulli_threshold

__all__ = ["dropout_backward", "dropout_forward"]


def dropout_forward(x: Array, p: float, seed: int, stream: int, offset: Place) -> tuple[Array, Array]:
    place = grid_of(offset, x.shape)
    if not isinstance(place, Grid) and place < 0:
        raise ArgumentError(f"dropout: wanted an offset of 0 or more, got {place}.")
    scale, threshold = dropout_scale(p), bernoulli_threshold("dropout", p)
    x = contiguous(x)
    y, mask = np.empty_like(x), np.empty(x.shape, np.bool_)
    rows, starts = runs(place, x)
    words = (*split_64(seed), *split_64(stream))
    _forward(rows, starts, y.reshape(rows.shape), mask.reshape(rows.shape), *words, threshold, scale)
    return y, mask


def dropout_backward(g: Array, mask: Array, p: float) -> Array:
    scale = dropout_scale(p)
    if g.shape != mask.shape:
        raise ShapeError(
            f"dropout: the gradient has shape {g.shape}, and the mask {mask.shape}; wanted the same."
        )
    g, mask = contiguous(g), contiguous(mask.astype(np.bool_, copy=False))
    dx = np.empty_like(g)
    _backward(g.reshape(-1), mask.reshape(-1), dx.reshape(-1), scale)
    return dx


@fused(
    lambda real: (
        *(read(real, 2), read(int64, 1), write(real, 2), write(boolean, 2)),
        *(int64, int64, int64, int64, int64, float64),
    ),
    exact=True,
)
def _forward(
    x: Array,
    starts: Array,
    y: Array,
    mask: Array,
    seed_low: int,
    seed_high: int,
    stream_low: int,
    stream_high: int,
    threshold: int,
    scale: float,
) -> None:
    real = x.dtype.type
    zero, factor = real(0), real(scale)
    buffer = np.empty(CHUNK, np.uint32)
    length = x.shape[1]
    for r in range(x.shape[0]):
        block, skip, done = starts[r] // 4, starts[r] % 4, 0
        while done < length:
            used = buffer[: min(CHUNK, (skip + length - done + 3) // 4 * 4)]
            fill(used, block, seed_low, seed_high, stream_low, stream_high)
            stop, words = done + CHUNK - skip, buffer[skip:]
            source, out, kept = x[r][done:stop], y[r][done:stop], mask[r][done:stop]
            for j in range(source.size):
                keep = np.int64(words[j]) >= threshold
                kept[j] = keep
                out[j] = source[j] * factor if keep else zero
            done, block, skip = done + source.size, block + CHUNK // 4, 0


@fused(lambda real: (read(real, 1), read(boolean, 1), write(real, 1), float64), exact=True)
def _backward(g: Array, mask: Array, dx: Array, scale: float) -> None:
    real = g.dtype.type
    zero, factor = real(0), real(scale)
    for i in range(g.size):
        dx[i] = g[i] * factor if mask[i] else zero
