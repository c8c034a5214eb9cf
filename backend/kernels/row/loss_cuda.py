"""CUDA cross-entropy; the formulas are in ``loss.py``."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.launch_cuda import (
    Launcher,
    contiguous,
    empty,
    integers,
    matrix,
    rows,
    wide,
)
from shardwise.backend.kernels.row.loss import check_labels

__all__ = ["cross_entropy_and_slope", "cross_entropy_backward", "cross_entropy_forward", "launch"]

launch = Launcher(DeviceSource("row/loss.cu"))


def cross_entropy_forward(logits: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    check_labels(logits, target, ignore_index)
    logits, count, classes = matrix(logits)
    loss, logsumexp = empty(logits, (count,)), empty(logits, (count,), wide(logits.dtype))
    launch(
        "cross_entropy_forward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, integers(target), ignore_index, loss, logsumexp, count, classes),
    )
    return loss, logsumexp


def cross_entropy_backward(
    g: Array, logits: Array, target: Array, logsumexp: Array | None, ignore_index: int
) -> Array:
    check_labels(logits, target, ignore_index)
    if logsumexp is None:
        logsumexp = cross_entropy_forward(logits, target, ignore_index)[1]
    logits, count, classes = matrix(logits)
    dlogits = empty(logits, logits.shape)
    shift = contiguous(logsumexp.astype(wide(logits.dtype), copy=False))
    launch(
        "cross_entropy_backward",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(contiguous(g), logits, integers(target), shift, ignore_index, dlogits, count, classes),
    )
    return dlogits


def cross_entropy_and_slope(
    logits: Array, target: Array, ignore_index: int, share: float
) -> tuple[Array, Array]:
    check_labels(logits, target, ignore_index)
    logits, count, classes = matrix(logits)
    loss, slope = empty(logits, (count,)), empty(logits, logits.shape, wide(logits.dtype))
    launch(
        "cross_entropy_and_slope",
        logits.dtype,
        rows(count, classes, logits.itemsize),
        *(logits, integers(target), ignore_index, float(share), loss, slope, count, classes),
    )
    return loss, slope
