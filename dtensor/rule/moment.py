"""Means and variances over dims that lie in parts: each rank's count, mean and spread give those of all.

They are put together by the formula of T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the
sample variance", 1983, which loses no digits where a mean is large beside its spread, and take one all-gather
of two numbers per result and rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwise.backend.array import Array
from shardwise.dtensor.move import moved
from shardwise.dtensor.rule.block import blocks, counts_of_blocks, unblocked
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.skip import is_outside, nothing
from shardwise.dtensor.sharded_array import ShardedArray
from shardwise.tensor.dim import Dims, counted_dims
from shardwise.tensor.function import Context

__all__ = ["moments", "std", "var"]


def moments(x: Any, dims: Sequence[int]) -> tuple[Any, Any]:
    """Return the mean, and the sum of squared distances from it, over dims that stay with size one.

    Parameters
    ----------
    x : DTensor, any layout, off the tape
        Not empty over `dims`.
    dims : sequence of int

    Returns
    -------
    mean : DTensor, dtype of `x`
    spread : DTensor, real
    """
    x = settled(x)
    data: ShardedArray = x.data
    dims = tuple(dims)
    if is_outside(data.layout):
        kept = unblocked(blocks(data.layout, dims, (2,), data.dtype), outer=2)
        return nothing(kept), nothing(kept.with_dtype(np.empty(0, data.dtype).real.dtype))
    mean, spread = _of_part(data.local, dims)
    pair = np.stack([mean, spread.astype(mean.dtype)])[None]
    layout = blocks(data.layout, dims, (2,), pair.dtype)
    pairs = moved(ShardedArray(pair, layout), unblocked(layout)).local
    counts = counts_of_blocks(data.layout, dims)
    total = sum(counts)
    weights = np.reshape(
        np.asarray([n / total for n in counts], dtype=spread.dtype, like=pairs), (-1, *(1,) * mean.ndim)
    )
    means, spreads = pairs[:, 0], np.real(pairs[:, 1])
    mean = np.sum(means * weights, axis=0)
    centred = means - mean
    spread = np.sum(spreads + _squared(centred) * (weights * float(total)), axis=0)
    kept = unblocked(layout, outer=2)
    wrap: Any = ShardedArray.tensor_class
    return (
        wrap(ShardedArray(mean.astype(pair.dtype), kept)),
        wrap(ShardedArray(spread, kept.with_dtype(spread.dtype))),
    )


def _of_part(x: Array, dims: tuple[int, ...]) -> tuple[Array, Array]:
    if 0 in [x.shape[d] for d in dims]:
        nothing = np.sum(x, axis=dims, keepdims=True)
        return nothing, np.real(nothing)
    mean = np.mean(x, axis=dims, keepdims=True)
    return mean, np.sum(_squared(x - mean), axis=dims, keepdims=True)


def _squared(x: Array) -> Array:
    return np.real(x) * np.real(x) + np.imag(x) * np.imag(x) if x.dtype.kind == "c" else x * x


def var(ctx: Context, a: Any, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """The variance: one all-gather of two numbers per result and rank; backward an all-reduce of means."""
    ctx.save(a)
    return _variance(ctx, "var", a, dim, correction, keepdim)


def std(ctx: Context, a: Any, dim: Dims = None, correction: float = 1, keepdim: bool = False) -> Any:
    """The square root of `var`."""
    out = _variance(ctx, "std", a, dim, correction, keepdim).sqrt()
    ctx.save(a, out)
    return out


def _variance(ctx: Context, op: str, a: Any, dim: Dims, correction: float, keepdim: bool) -> Any:
    ctx.dims = dims = counted_dims(op, dim, a.ndim)
    count = math.prod([a.shape[d] for d in dims])
    ctx.freedom = count - correction
    if a.dtype.kind in "iub":
        a = a.astype(np.float64)
    if count == 0:
        return settled((a.real if a.dtype.kind == "c" else a).sum(dims, keepdim=keepdim)) * math.nan
    _, spread = moments(a, dims)
    if ctx.freedom > 0:
        out = spread / ctx.freedom
    else:
        out = np.where(spread > 0, math.inf, spread * math.nan)
    return out if keepdim else out.reshape(tuple([n for d, n in enumerate(out.shape) if d not in ctx.dims]))
