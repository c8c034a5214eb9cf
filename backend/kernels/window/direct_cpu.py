"""Fused convolution without windows laid out, for NumPy arrays; the formulas are in ``direct.py``.

Each image is copied between zeros, so that loops need not ask for its edges.
"""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.kernels.jit import device, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import contiguous
from shardwise.backend.kernels.window.tile_cpu import (
    OUTPUTS,
    TAPS,
    VECTOR_BYTES,
    WEIGHT_OUTPUTS,
    add_tile,
    weight_tile,
)

__all__ = ["direct_forward", "direct_weight"]


def direct_forward(x: Array, weight: Array, size: Shape, padding: Shape) -> Array:
    if x.shape[1] != weight.shape[1]:
        raise ShapeError(
            f"direct_forward: the input has shape {x.shape}, and the weight {weight.shape}; wanted as many "
            "channels in both."
        )
    out = np.empty((x.shape[0], weight.shape[0], *size), x.dtype)
    if out.size:
        _forward(contiguous(x), _packed(weight), weight.shape[0], *padding, 2 * _lanes(x), out)
    return out


def direct_weight(x: Array, g: Array, kernel: Shape, padding: Shape) -> Array:
    if x.shape[0] != g.shape[0]:
        raise ShapeError(
            f"direct_weight: the input has shape {x.shape}, and the gradient {g.shape}; wanted as many "
            "images in both."
        )
    total = np.zeros((g.shape[1], x.shape[1], *kernel), x.dtype)
    if g.size:
        _weight(contiguous(x), contiguous(g), *padding, _lanes(x), total)
    return total


def _lanes(x: Array) -> int:
    return VECTOR_BYTES // x.itemsize


def _packed(weight: Array) -> Array:
    """Weights as tiles read them, (tiles, channels, height, width, outputs of a tile)."""
    outputs, *rest = weight.shape
    tiles = -(-outputs // OUTPUTS)
    padded = np.zeros((tiles * OUTPUTS, *rest), weight.dtype)
    padded[:outputs] = weight
    return np.ascontiguousarray(np.moveaxis(padded.reshape(tiles, OUTPUTS, *rest), 1, -1))


@device()
def _place_between_zeros(room: Array, image: Array, top: int, left: int) -> None:
    """Copy what of an image fits into a room that has zeros around it."""
    height, width = image.shape[1], image.shape[2]
    for c in range(image.shape[0]):
        for i in range(min(height, room.shape[1] - top)):
            source, target = image[c, i], room[c, i + top]
            for j in range(min(width, target.size - left)):
                target[left + j] = source[j]


@fused(lambda real: (read(real, 4), read(real, 5), int64, int64, int64, int64, write(real, 4)))
def _forward(x: Array, weight: Array, outputs: int, top: int, left: int, span: int, out: Array) -> None:
    batch, channels = x.shape[0], x.shape[1]
    tiles, _, height, width, _ = weight.shape
    rows, places = out.shape[2], out.shape[3]
    across = (places + span - 1) // span * span + width - 1
    room = np.zeros((channels, rows + height - 1, across), x.dtype)
    source, factors, result = room.reshape(-1), weight.reshape(-1), out.reshape(-1)
    spare = np.empty(OUTPUTS * span, x.dtype)
    for n in range(batch):
        _place_between_zeros(room, x[n], top, left)
        for i in range(rows):
            for j in range(0, places, span):
                for tile in range(tiles):
                    start, first = i * across + j, tile * channels * height * width * OUTPUTS
                    k = tile * OUTPUTS
                    target, between = ((n * outputs + k) * rows + i) * places + j, rows * places
                    shape = (room.shape[1] * across, across, channels, height, width)
                    if k + OUTPUTS <= outputs and j + span <= places:
                        add_tile(
                            source, start, shape[0], shape[1], shape[2], shape[3], shape[4], factors, first,
                            result, target, between,
                        )  # fmt: skip
                        continue
                    add_tile(
                        source, start, shape[0], shape[1], shape[2], shape[3], shape[4], factors, first,
                        spare, 0, span,
                    )  # fmt: skip
                    for o in range(min(OUTPUTS, outputs - k)):
                        for p in range(min(span, places - j)):
                            result[target + o * between + p] = spare[o * span + p]


@fused(lambda real: (read(real, 4), read(real, 4), int64, int64, int64, write(real, 4)))
def _weight(x: Array, g: Array, top: int, left: int, lanes: int, total: Array) -> None:
    batch, channels = x.shape[0], x.shape[1]
    outputs, rows, places = g.shape[1], g.shape[2], g.shape[3]
    height, width = total.shape[2], total.shape[3]
    tiles, vectors = (outputs + WEIGHT_OUTPUTS - 1) // WEIGHT_OUTPUTS, (places + lanes - 1) // lanes
    length, groups = vectors * lanes, (width + TAPS - 1) // TAPS
    across = length + groups * TAPS
    room = np.zeros((channels, rows + height - 1, across), x.dtype)
    gradients = np.zeros((tiles * WEIGHT_OUTPUTS, rows, length), g.dtype)
    source, given = room.reshape(-1), gradients.reshape(-1)
    sums = np.empty(WEIGHT_OUTPUTS * TAPS, x.dtype)
    for n in range(batch):
        _place_between_zeros(room, x[n], top, left)
        _place_between_zeros(gradients, g[n], 0, 0)
        for tile in range(tiles):
            k = tile * WEIGHT_OUTPUTS
            for c in range(channels):
                for i in range(height):
                    for j in range(0, width, TAPS):
                        weight_tile(
                            given, k * rows * length, rows * length, length,
                            source, (c * room.shape[1] + i) * across + j, across, rows, places // lanes,
                            places % lanes, sums,
                        )  # fmt: skip
                        for o in range(min(WEIGHT_OUTPUTS, outputs - k)):
                            for tap in range(min(TAPS, width - j)):
                                total[k + o, c, i, j + tap] += sums[o * TAPS + tap]
