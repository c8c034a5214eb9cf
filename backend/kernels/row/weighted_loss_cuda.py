"""CUDA cross-entropy with weights and smoothed labels; the formulas are in ``weighted_loss.py``."""

from __future__ import annotations

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Launcher,
    contiguous,
    empty,
    integers,
    matrix,
    optional,
    rows,
    wide,
)

__all__ = [
    "launch",
    "soft_cross_entropy_backward",
    "soft_cross_entropy_forward",
    "weighted_cross_entropy_backward",
    "weighted_cross_entropy_forward",
]

launch = Launcher(DeviceSource("row/weighted_loss.cu"))


def weighted_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, smoothing: float
) -> tuple[Array, Array]:
    logits, count, classes = matrix(logits)
    loss, logsumexp = empty(logits, (count,)), empty(logits, (count,), wide(logits.dtype))
    launch(
        "weighted_cross_entropy_forward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, integers(target), optional(weight), ignore_index, float(smoothing)),
        *(loss, logsumexp, count, classes),
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
    logits, count, classes = matrix(logits)
    dlogits, real = empty(logits, logits.shape), wide(logits.dtype)
    if weight is None:
        total = np.full_like(logits, smoothing, real, order="C", shape=(1,))
    else:
        total = np.sum(weight.astype(real, copy=False), keepdims=True) * (smoothing / max(classes, 1))
    launch(
        "weighted_cross_entropy_backward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, contiguous(g), integers(target), optional(weight)),
        *(contiguous(logsumexp.astype(real, copy=False)), total, ignore_index, float(smoothing)),
        *(dlogits, count, classes),
    )
    return dlogits


def soft_cross_entropy_forward(
    logits: Array, target: Array, weight: Array | None, smoothing: float
) -> tuple[Array, Array]:
    logits, count, classes = matrix(logits)
    loss, logsumexp = empty(logits, (count,)), empty(logits, (count,), wide(logits.dtype))
    launch(
        "soft_cross_entropy_forward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, contiguous(target), optional(weight), float(smoothing), loss, logsumexp, count, classes),
    )
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
    logits, count, classes = matrix(logits)
    dlogits = empty(logits, logits.shape)
    launch(
        "soft_cross_entropy_backward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, contiguous(g), contiguous(target), optional(weight)),
        *(contiguous(logsumexp.astype(wide(logits.dtype), copy=False)), float(smoothing)),
        *(dlogits, count, classes),
    )
    return dlogits
