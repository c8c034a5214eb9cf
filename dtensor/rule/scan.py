"""Running results along a dim that lies in parts: each rank's own, and what the parts before it give.

One all-gather of a number per line and rank passes; the results stay in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.kind import is_narrow
from shardwise.backend.shape import ShapeArray
from shardwise.dtensor.rule.block import blocks, counts_of_blocks, here_of, place_of_block, unblocked
from shardwise.dtensor.rule.formula import settled
from shardwise.dtensor.rule.region import Linear, region
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.function import Context, Function
from shardwise.tensor.joining import stack, where
from shardwise.tensor.ops.arithmetic import masked_fill
from shardwise.tensor.ops.elementary import LogAddExp
from shardwise.tensor.ops.reduce import Prod, Sum
from shardwise.tensor.ops.scan import Cumprod, Cumsum, LogCumsumExp
from shardwise.tensor.ops.statistics import LogSumExp
from shardwise.tensor.tensor import Tensor

__all__ = ["cumprod", "cumsum", "logcumsumexp", "running_extreme"]


def cumsum(a: Any, dim: int) -> Any:
    """The running sum."""
    return _scanned(a, dim, Cumsum, Sum, 0.0, lambda before, run: before + run)


def cumprod(a: Any, dim: int) -> Any:
    """The running product."""
    return _scanned(a, dim, Cumprod, Prod, 1.0, lambda before, run: before * run)


def logcumsumexp(a: Any, dim: int) -> Any:
    """The logarithm of the running sum of exponentials."""
    return _scanned(a, dim, LogCumsumExp, LogSumExp, -math.inf, LogAddExp.apply)


def _scanned(
    a: Any,
    dim: int,
    scan: type[Function],
    fold: type[Function],
    nothing: float,
    join: Callable[[Any, Any], Any],
) -> Any:
    """Scan parts, fold parts, fold the folds of the parts before, and join. `nothing` changes no fold."""
    a = settled(a)
    dim = counted_dim(scan.__name__.lower(), dim, a.ndim)
    layout = a.layout.with_dtype(_kind(scan, a, dim))
    entry = blocks(layout, (dim,), (), layout.dtype)
    linear: Linear = "all" if scan is Cumsum else ""

    def within(local: Any) -> tuple[Any, Any]:
        total: Any = fold.apply(local, dim=dim, keepdim=True)
        return scan.apply(local, dim=dim), total.reshape(1, *total.shape)

    def across(run: Any, totals: Any) -> Any:
        earlier = np.arange(totals.shape[0]) < place_of_block(layout, (dim,))
        later = Tensor(np.reshape(~earlier, (-1, *(1,) * a.ndim)))
        return join(fold.apply(masked_fill(totals, later, _as(nothing, totals)), dim=0), run)

    run, total = region(scan.__name__, within, [a], [layout, entry], linear)
    return region(scan.__name__, across, [run, total.placed_as(unblocked(entry))], [layout], linear)


def _kind(scan: type[Function], a: Any, dim: int) -> Any:
    """Return the dtype of a scan of `a`."""
    if is_narrow(a.dtype):
        return a.dtype
    return scan.forward(Context((False,)), ShapeArray(a.shape, a.dtype), dim=dim).dtype


def _as(number: float, x: Any) -> float | int:
    return int(number) if x.dtype.kind in "iu" else number


def running_extreme(scan: type[Function]) -> Callable[..., tuple[Any, Any]]:
    """Return the composition of `Cummax` or `Cummin`: values, and the places of the last that are as good."""

    def composed(a: Any, dim: int) -> tuple[Any, Any]:
        a = settled(a)
        layout = a.layout
        dim = counted_dim(scan.__name__.lower(), dim, a.ndim)
        integers = layout.with_dtype(np.int64)
        entry = blocks(layout, (dim,), (), layout.dtype)
        numbered = entry.with_dtype(np.int64)

        def within(local: Any) -> tuple[Any, ...]:
            values, places = _pair(scan, local, dim)
            places = places + layout.local_offset(here_of(layout))[dim]
            count = local.shape[dim]
            if count:
                best, home = (each.narrow(dim, count - 1, 1) for each in (values, places))
            else:  # stands for nothing, and is left out
                best = local.sum(dim, keepdim=True).astype(local.dtype)
                home = Tensor(np.zeros_like(best.data, dtype=np.int64))
            return values, places, best.reshape(1, *best.shape), home.reshape(1, *home.shape)

        def across(values: Any, places: Any, bests: Any, homes: Any) -> tuple[Any, Any]:
            full = counts_of_blocks(layout, (dim,))[: place_of_block(layout, (dim,))]
            earlier = [i for i, n in enumerate(full) if n]
            if not earlier:
                return values, places
            before, which = (each[-1] for each in _pair(scan, bests[earlier], 0))
            home = homes[earlier].gather(0, which.reshape(1, *which.shape))[0]
            pair = stack([before.expand(values.shape), values])
            values, second = (each[-1] for each in _pair(scan, pair, 0))
            return values, where(second == 1, places, home)

        name = scan.__name__
        values, places, best, home = region(name, within, [a], [layout, integers, entry, numbered], "all")
        bests, homes = best.placed_as(unblocked(entry)), home.placed_as(unblocked(numbered))
        both: tuple[Any, Any] = region(
            name, across, [values, places, bests, homes], [layout, integers], "all"
        )
        return both

    return composed


def _pair(scan: type[Function], x: Any, dim: int) -> tuple[Any, Any]:
    result: Any = scan.apply(x, dim=dim)
    return result[0], result[1]
