"""Losses of classes: rows of logits or log-probabilities against labels or probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.backend.kernels.row.loss import (
    cross_entropy_and_slope,
    cross_entropy_backward,
    cross_entropy_forward,
)
from shardwise.backend.kernels.row.weighted_loss import (
    soft_cross_entropy_backward,
    soft_cross_entropy_forward,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["CrossEntropy", "NegativeLikelihood", "SoftCrossEntropy", "WeightedCrossEntropy"]


class CrossEntropy(Function):
    """Per row, ``logsumexp(logits) - logits[target]``; 0 where the target is `ignore_index`."""

    signature = "n[c],n->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, logits: Array, target: Array, ignore_index: int) -> Array:
        ctx.ignore_index, ctx.share = ignore_index, None
        if ctx.need[0] and type(logits) is np.ndarray and 0 not in logits.shape:
            # While the exponentials are at hand they make the gradient of a mean, which is what is wanted
            # of most losses; others are a multiple of it, row by row.
            ctx.share = logits.dtype.type(1.0 / len(logits))
            loss, statistic = cross_entropy_and_slope(logits, target, ignore_index, float(ctx.share))
        else:
            loss, statistic = cross_entropy_forward(logits, target, ignore_index)
        ctx.save(logits, target, statistic)
        return loss

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, statistic = ctx.saved
        if statistic is None or ctx.share is None:
            return cross_entropy_backward(g, logits, target, statistic, ctx.ignore_index), None
        if (g == ctx.share).all():
            return statistic, None
        scale = np.where(target == ctx.ignore_index, 0.0, g / ctx.share)  # whatever arrives
        return statistic * np.expand_dims(scale, 1), None


class WeightedCrossEntropy(Function):
    """Per row, the cross-entropy with class weights and a smoothed label (Szegedy et al. 2016).

    ``(1 - s) * weight[target] * loss(target) + s / classes * sum(weight[c] * loss(c))``, with
    ``loss(c) = logsumexp(logits) - logits[c]``; 0 where the target is `ignore_index`. The labels
    must be in range. The weights, if there are any, are constants.
    """

    signature = "n[c],n,[c]->n"
    precision = "wide"

    @staticmethod
    def forward(
        ctx: Context, logits: Array, target: Array, weight: Array | None, ignore_index: int, smoothing: float
    ) -> Array:
        loss, logsumexp = weighted_cross_entropy_forward(logits, target, weight, ignore_index, smoothing)
        ctx.ignore_index, ctx.smoothing = ignore_index, smoothing
        ctx.save(logits, target, weight, logsumexp)
        return loss

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, weight, logsumexp = ctx.saved
        dlogits = weighted_cross_entropy_backward(
            logits, g, target, weight, logsumexp, ctx.ignore_index, ctx.smoothing
        )
        return dlogits, None, None


class SoftCrossEntropy(Function):
    """Per row, ``-sum(weight[c] * p[c] * log_softmax(logits)[c])``.

    With a smoothing of ``s``, p is ``(1 - s) * target + s / classes``, else the target. The weights, if
    there are any, are constants.
    """

    signature = "n[c],n[c],[c]->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, logits: Array, target: Array, weight: Array | None, smoothing: float) -> Array:
        loss, logsumexp = soft_cross_entropy_forward(logits, target, weight, smoothing)
        ctx.smoothing = smoothing
        ctx.save(logits, target, weight, logsumexp)
        return loss

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, weight, logsumexp = ctx.saved
        dlogits = dtarget = None
        if ctx.need[0]:
            dlogits = soft_cross_entropy_backward(logits, g, target, weight, logsumexp, ctx.smoothing)
        if ctx.need[1]:
            dtarget = _log_softmax(logits) * np.expand_dims(g, 1) * (ctx.smoothing - 1.0)
            dtarget = dtarget if weight is None else dtarget * weight
        return dlogits, dtarget, None


def _log_softmax(logits: Any) -> Any:
    """Rows of log-probabilities, by a formula that may itself be differentiated."""
    shifted = logits - np.amax(logits, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


class NegativeLikelihood(Function):
    """Per row, ``-weight[target] * x[target]``; 0 where the target is `ignore_index`.

    The labels must be in range. The weights, if there are any, are constants.
    """

    signature = "n[c],n,[c]->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, weight: Array | None, ignore_index: int) -> Array:
        ctx.ignore_index, ctx.shape = ignore_index, x.shape
        ctx.save(target, weight)
        counted, label = _labels(target, ignore_index)
        loss = -np.squeeze(np.take_along_axis(x, np.expand_dims(label, 1), axis=1), axis=1)
        if weight is not None:
            loss = loss * np.take(weight, label, axis=0)
        return np.where(counted, loss, 0.0)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        target, weight = ctx.saved
        counted, label = _labels(target, ctx.ignore_index)
        slope = -g
        if weight is not None:
            slope = slope * np.take(weight, label, axis=0)
        place = (np.arange(ctx.shape[0], like=target), label)
        return special.scatter_add(ctx.shape, place, np.where(counted, slope, 0.0)), None, None


def _labels(target: Any, ignore_index: int) -> tuple[Any, Any]:
    """Return which rows count, and their labels, 0 for the others."""
    counted = target != ignore_index
    return counted, np.where(counted, target, 0)
