"""Fused weighted cross-entropy for NumPy arrays; the formulas are in ``weighted_loss.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, contiguous, integer_rows
from shardwise.backend.kernels.scalar.math_cpu import difference_plus, exp, row_maximum

__all__ = [
    "soft_cross_entropy_backward", "soft_cross_entropy_forward", "weighted_cross_entropy_backward",
    "weighted_cross_entropy_forward",
]  # fmt: skip


def weighted_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, smoothing: float
) -> tuple[Array, Array]:
    loss, logsumexp = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)
    weights = _weights(weight, logits)
    _weighted_forward(
        as_rows(logits), integer_rows(target), weights, ignore_index, smoothing, loss, logsumexp
    )
    return loss, logsumexp


def weighted_cross_entropy_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array | None,
    logsumexp: Array | None,
    ignore_index: int,
    smoothing: float,
) -> Array:
    if logsumexp is None:
        logsumexp = weighted_cross_entropy_forward(logits, target, weight, ignore_index, smoothing)[1]
    dlogits = np.empty(logits.shape, logits.dtype)
    weights = _weights(weight, logits)
    rows = (as_rows(logits), contiguous(g), integer_rows(target), weights, contiguous(logsumexp))
    _weighted_backward(*rows, ignore_index, smoothing, dlogits)
    return dlogits


def soft_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, smoothing: float
) -> tuple[Array, Array]:
    loss, logsumexp = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)
    _soft_forward(as_rows(logits), as_rows(target), _weights(weight, logits), smoothing, loss, logsumexp)
    return loss, logsumexp


def soft_cross_entropy_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array | None,
    logsumexp: Array | None,
    smoothing: float,
) -> Array:
    if logsumexp is None:
        logsumexp = soft_cross_entropy_forward(logits, target, weight, smoothing)[1]
    dlogits = np.empty(logits.shape, logits.dtype)
    rows = (as_rows(logits), contiguous(g), as_rows(target), _weights(weight, logits), contiguous(logsumexp))
    _soft_backward(*rows, smoothing, dlogits)
    return dlogits


def _weights(weight: Array | None, logits: Array) -> Array:
    return np.ones(logits.shape[1], logits.dtype) if weight is None else contiguous(weight)


@fused(
    lambda real: (
        *(read(real, 2), read(int64, 1), read(real, 1), int64, float64),
        *(write(real, 1), write(real, 1)),
    )
)
def _weighted_forward(
    logits: Array,
    target: Array,
    weight: Array,
    ignore_index: int,
    smoothing: float,
    loss: Array,
    logsumexp: Array,
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    own, every = real(1.0 - smoothing), real(smoothing / max(classes, 1))
    for i in range(rows):
        row = logits[i]
        highest = row_maximum(row, classes)
        total = real(0)
        for j in range(classes):
            total += exp(row[j] - highest)
        logarithm = real(math.log(total))
        logsumexp[i] = highest + logarithm
        label = target[i]
        if label == ignore_index:
            loss[i] = real(0)
            continue
        result = own * weight[label] * difference_plus(highest, row[label], logarithm)
        if smoothing != 0.0:
            rest = real(0)
            for j in range(classes):
                rest += weight[j] * difference_plus(highest, row[j], logarithm)
            result += every * rest
        loss[i] = result


@fused(
    lambda real: (
        *(read(real, 2), read(real, 1), read(int64, 1), read(real, 1), read(real, 1)),
        *(int64, float64, write(real, 2)),
    )
)
def _weighted_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array,
    logsumexp: Array,
    ignore_index: int,
    smoothing: float,
    dlogits: Array,
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    every, total = real(smoothing / max(classes, 1)), real(0)
    for j in range(classes):
        total += weight[j]
    total *= every
    for i in range(rows):
        row, out, label = logits[i], dlogits[i], target[i]
        if label == ignore_index:
            out[:] = real(0)
            continue
        own = real(1.0 - smoothing) * weight[label]
        scale, shift, size = g[i], logsumexp[i], own + total
        for j in range(classes):
            out[j] = (exp(row[j] - shift) * size - every * weight[j]) * scale
        out[label] -= own * scale


@fused(
    lambda real: (
        *(read(real, 2), read(real, 2), read(real, 1), float64),
        *(write(real, 1), write(real, 1)),
    )
)
def _soft_forward(
    logits: Array, target: Array, weight: Array, smoothing: float, loss: Array, logsumexp: Array
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    own, every = real(1.0 - smoothing), real(smoothing / max(classes, 1))
    for i in range(rows):
        row, shares = logits[i], target[i]
        highest = row_maximum(row, classes)
        total = real(0)
        for j in range(classes):
            total += exp(row[j] - highest)
        logarithm = real(math.log(total))
        logsumexp[i] = highest + logarithm
        result = real(0)
        for j in range(classes):
            share = weight[j] * (own * shares[j] + every)
            result += share * difference_plus(highest, row[j], logarithm)
        loss[i] = result


@fused(
    lambda real: (
        *(read(real, 2), read(real, 1), read(real, 2), read(real, 1), read(real, 1)),
        *(float64, write(real, 2)),
    )
)
def _soft_backward(
    logits: Array,
    g: Array,
    target: Array,
    weight: Array,
    logsumexp: Array,
    smoothing: float,
    dlogits: Array,
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    own, every = real(1.0 - smoothing), real(smoothing / max(classes, 1))
    for i in range(rows):
        row, shares, out = logits[i], target[i], dlogits[i]
        total = real(0)
        for j in range(classes):
            total += weight[j] * (own * shares[j] + every)
        scale, shift = g[i], logsumexp[i]
        for j in range(classes):
            share = weight[j] * (own * shares[j] + every)
            out[j] = (exp(row[j] - shift) * total - share) * scale
