"""Losses."""

from __future__ import annotations

from shardwise.backend.array import Array
from shardwise.backend.kernels.loss import cross_entropy_backward, cross_entropy_forward
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["CrossEntropy"]


class CrossEntropy(Function):
    """Per row, ``logsumexp(logits) - logits[target]``; 0 where the target is `ignore_index`."""

    signature = "n[c],n->n"

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
