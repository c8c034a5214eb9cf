"""Fused cross-entropy for NumPy arrays; the formulas are in ``loss.py``."""

from __future__ import annotations

import math

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.jit import float64, fused, int64, read, write
from shardwise.backend.kernels.memory.contiguous import as_rows, contiguous, integer_rows
from shardwise.backend.kernels.row.loss import check_labels
from shardwise.backend.kernels.scalar.math_cpu import difference_plus, exp_of_negative, row_maximum

__all__ = ["cross_entropy_and_slope", "cross_entropy_backward", "cross_entropy_forward"]


def cross_entropy_forward(logits: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    check_labels(logits, target, ignore_index)
    loss, logsumexp = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)
    _forward(as_rows(logits), integer_rows(target), ignore_index, loss, logsumexp)
    return loss, logsumexp


def cross_entropy_and_slope(
    logits: Array, target: Array, ignore_index: int, share: float
) -> tuple[Array, Array]:
    check_labels(logits, target, ignore_index)
    loss, slope = np.empty(len(logits), logits.dtype), np.empty(logits.shape, logits.dtype)
    _forward_and_slope(as_rows(logits), integer_rows(target), ignore_index, share, loss, slope)
    return loss, slope


def cross_entropy_backward(
    g: Array, logits: Array, target: Array, logsumexp: Array | None, ignore_index: int
) -> Array:
    check_labels(logits, target, ignore_index)
    if logsumexp is None:
        logsumexp = cross_entropy_forward(logits, target, ignore_index)[1]
    # Gradients of a mean arrive broadcast from one number, so g is often not contiguous.
    dlogits = np.empty(logits.shape, logits.dtype)
    arguments = (as_rows(logits), integer_rows(target), contiguous(logsumexp), ignore_index, dlogits)
    _backward(contiguous(g), *arguments)
    return dlogits


@fused(lambda real: (read(real, 2), read(int64, 1), int64, write(real, 1), write(real, 1)))
def _forward(logits: Array, target: Array, ignore_index: int, loss: Array, logsumexp: Array) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    for i in range(rows):
        row = logits[i]
        highest = row_maximum(row, classes)
        total = real(0)
        for j in range(classes):
            total += exp_of_negative(row[j] - highest)
        logarithm = real(math.log(total))
        logsumexp[i] = highest + logarithm
        label = target[i]
        loss[i] = real(0) if label == ignore_index else difference_plus(highest, row[label], logarithm)


@fused(lambda real: (read(real, 2), read(int64, 1), int64, float64, write(real, 1), write(real, 2)))
def _forward_and_slope(
    logits: Array, target: Array, ignore_index: int, share: float, loss: Array, slope: Array
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    weight = real(share)
    for i in range(rows):
        row, out, label = logits[i], slope[i], target[i]
        if label == ignore_index:
            loss[i] = real(0)
            out[:] = real(0)
            continue
        highest = row_maximum(row, classes)
        total = real(0)
        for j in range(classes):
            e = exp_of_negative(row[j] - highest)
            out[j] = e
            total += e
        loss[i] = difference_plus(highest, row[label], real(math.log(total)))
        factor = weight / total
        for j in range(classes):
            out[j] *= factor
        out[label] -= weight


@fused(lambda real: (read(real, 1), read(real, 2), read(int64, 1), read(real, 1), int64, write(real, 2)))
def _backward(
    g: Array, logits: Array, target: Array, logsumexp: Array, ignore_index: int, dlogits: Array
) -> None:
    real = logits.dtype.type
    rows, classes = logits.shape
    for i in range(rows):
        row, out, label = logits[i], dlogits[i], target[i]
        if label == ignore_index:
            out[:] = real(0)
            continue
        weight, shift = g[i], logsumexp[i]
        for j in range(classes):
            out[j] = exp_of_negative(row[j] - shift) * weight
        out[label] -= weight
