"""Softmax and sums of exponentials over a dim that lies in parts: a maximum and a sum pass between ranks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.dtensor.rule.formula import settled
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context

__all__ = ["log_softmax", "logsumexp", "softmax"]


def softmax(ctx: Context, x: Any) -> Any:
    """Softmax over the last dim: two all-reduces of one number per row forward, one backward."""
    if not x.shape[-1]:
        out = x * 1.0
        ctx.save(out)
        return out
    exponentials = np.exp(x - x.amax(-1, keepdim=True))
    out = exponentials / exponentials.sum(-1, keepdim=True)
    ctx.save(out)
    return out


def log_softmax(ctx: Context, x: Any) -> Any:
    """The logarithm of the softmax over the last dim: two all-reduces of one number per row, one backward."""
    if not x.shape[-1]:
        out = x * 1.0
        ctx.save(out)
        return out
    shifted = x - x.amax(-1, keepdim=True)
    out = shifted - np.log(np.exp(shifted).sum(-1, keepdim=True))
    ctx.save(out)
    return out


def logsumexp(ctx: Context, a: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials: two all-reduces of the result's size, none backward."""
    ctx.dims = dims = counted_dims("logsumexp", dim, a.ndim)
    if math.prod([a.shape[d] for d in dims]) == 0:
        return a.sum(dim=dims, keepdim=keepdim) - math.inf
    top = settled((a.real if a.dtype.kind == "c" else a).amax(dims, keepdim=True))
    largest = float(np.finfo(top.dtype).max)
    shift = np.where(top == -math.inf, 0.0, np.minimum(top, largest))
    total = settled(np.exp(a - shift).sum(dims, keepdim=True))
    none = total == 0
    out = np.where(none, -math.inf, np.log(np.where(none, 1.0, total)) + shift)
    if not keepdim:
        out = out.reshape(tuple([n for d, n in enumerate(a.shape) if d not in dims]))
    ctx.save(a, out)
    return out
