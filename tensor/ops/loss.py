"""Losses of classes: rows of logits or log-probabilities against labels or probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.loss import cross_entropy_backward, cross_entropy_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["CrossEntropy", "NegativeLikelihood", "SoftCrossEntropy", "WeightedCrossEntropy"]


class CrossEntropy(Function):
    """Per row, ``logsumexp(logits) - logits[target]``; 0 where the target is `ignore_index`."""

    signature = "n[c],n->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, logits: Array, target: Array, ignore_index: int) -> Array:
        loss, logsumexp = cross_entropy_forward(logits, target, ignore_index)
        ctx.ignore_index = ignore_index
        ctx.save(logits, target, logsumexp)
        return loss

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, logsumexp = ctx.saved
        return cross_entropy_backward(g, logits, target, logsumexp, ctx.ignore_index), None


def _log_softmax(logits: Any) -> Any:
    """Rows of log-probabilities, by a formula that may itself be differentiated."""
    shifted = logits - np.amax(logits, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def _labels(target: Any, classes: int, ignore_index: int) -> tuple[Any, Any, Any]:
    """Return which rows count, their labels (0 for the others), and where each label stands in its row.

    All have two dims. A label that counts is at one place, and one that is ignored at none.
    """
    column = np.expand_dims(target, 1)
    counted = column != ignore_index
    label = np.where(counted, column, 0)
    return counted, label, (np.arange(classes, like=target) == label) & counted


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
        ctx.ignore_index, ctx.smoothing = ignore_index, smoothing
        ctx.save(logits, target, weight)
        classes = logits.shape[1]
        counted, label, _ = _labels(target, classes, ignore_index)
        losses = -_log_softmax(logits)
        loss = np.take_along_axis(losses, label, axis=1) * (1.0 - smoothing)
        if weight is not None:
            loss = loss * np.take(weight, label, axis=0)
        if smoothing:
            every = losses if weight is None else losses * weight
            loss = loss + np.sum(every, axis=1, keepdims=True) * (smoothing / classes)
        return np.squeeze(np.where(counted, loss, 0.0), axis=1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, weight = ctx.saved
        classes, smoothing = logits.shape[1], ctx.smoothing
        counted, label, at_label = _labels(target, classes, ctx.ignore_index)
        own: Any = 1.0 - smoothing
        every: Any = smoothing / classes
        total: Any = smoothing
        if weight is not None:
            own = np.take(weight, label, axis=0) * own
            every = weight * every
            total = np.sum(every)
        slope = np.exp(_log_softmax(logits)) * (own + total)
        slope = np.where(at_label, slope - own, slope)
        if smoothing:
            slope = slope - every
        return np.where(counted, slope * np.expand_dims(g, 1), 0.0), None, None


class SoftCrossEntropy(Function):
    """Per row, ``-sum(weight[c] * p[c] * log_softmax(logits)[c])``.

    With a smoothing of ``s``, p is ``(1 - s) * target + s / classes``, else the target. The weights, if
    there are any, are constants.
    """

    signature = "n[c],n[c],[c]->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, logits: Array, target: Array, weight: Array | None, smoothing: float) -> Array:
        ctx.smoothing = smoothing
        ctx.save(logits, target, weight)
        return -np.sum(_log_softmax(logits) * _smoothed(target, weight, smoothing), axis=1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        logits, target, weight = ctx.saved
        column = np.expand_dims(g, 1)
        log_probability = _log_softmax(logits)
        dlogits = dtarget = None
        if ctx.need[0]:
            share = _smoothed(target, weight, ctx.smoothing)
            total = np.sum(share, axis=1, keepdims=True)
            dlogits = (np.exp(log_probability) * total - share) * column
        if ctx.need[1]:
            dtarget = log_probability * column * (ctx.smoothing - 1.0)
            dtarget = dtarget if weight is None else dtarget * weight
        return dlogits, dtarget, None


def _smoothed(target: Any, weight: Any, smoothing: float) -> Any:
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / target.shape[1]
    return target if weight is None else target * weight


class NegativeLikelihood(Function):
    """Per row, ``-weight[target] * x[target]``; 0 where the target is `ignore_index`.

    The labels must be in range. The weights, if there are any, are constants.
    """

    signature = "n[c],n,[c]->n"
    precision = "wide"

    @staticmethod
    def forward(ctx: Context, x: Array, target: Array, weight: Array | None, ignore_index: int) -> Array:
        ctx.ignore_index, ctx.classes = ignore_index, x.shape[1]
        ctx.save(target, weight)
        counted, label, _ = _labels(target, x.shape[1], ignore_index)
        loss = -np.take_along_axis(x, label, axis=1)
        if weight is not None:
            loss = loss * np.take(weight, label, axis=0)
        return np.squeeze(np.where(counted, loss, 0.0), axis=1)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        target, weight = ctx.saved
        _, label, at_label = _labels(target, ctx.classes, ctx.ignore_index)
        slope = -np.expand_dims(g, 1)
        if weight is not None:
            slope = slope * np.take(weight, label, axis=0)
        return np.where(at_label, slope, 0.0), None, None
