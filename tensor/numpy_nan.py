"""NumPy's reductions that pass over NaN, on tensors, with NumPy's argument names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.tensor.numpy_option import refuse
from shardwise.tensor.ops import arithmetic, extreme, reduce

__all__ = ["NAN_FUNCTIONS"]


def _without_nan(name: str) -> Callable[..., Any]:
    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, **options: Any
    ) -> Any:
        refuse(name, {"out": out, **options})
        return (a.nansum if name == "nansum" else a.nanmean)(axis, keepdims, dtype)

    return call


def _best_of_numbers(name: str) -> Callable[..., Any]:
    """Give ``nanmax`` or ``nanmin``: NaN counts as the worst of all, unless there is nothing else."""
    worst, function = {"nanmax": (-math.inf, extreme.Amax), "nanmin": (math.inf, extreme.Amin)}[name]

    def call(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, **options: Any) -> Any:
        refuse(name, {"out": out, **options})
        if a.dtype.kind not in "fV":
            return function.apply(a, dim=axis, keepdim=keepdims)
        here = np.equal(a, a)
        best = function.apply(arithmetic.Where.apply(here, a, worst), dim=axis, keepdim=keepdims)
        some = reduce.AnyTrue.apply(here, dim=axis, keepdim=keepdims)
        return arithmetic.Where.apply(some, best, math.nan)

    return call


def _nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, **options: Any
) -> Any:
    refuse("nanprod", {"out": out, **options})
    a = a if dtype is None else a.astype(dtype)
    numbers = a if a.dtype.kind in "iub" else arithmetic.Where.apply(np.equal(a, a), a, 1.0)
    return reduce.Prod.apply(numbers, dim=axis, keepdim=keepdims)


def _nan_spread(name: str) -> Callable[..., Any]:
    """Give ``nanvar`` or ``nanstd``: the squares of what is not NaN, from the mean of what is not NaN."""

    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, correction: float | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        refuse(name, {"out": out, **options})
        a = a if dtype is None else a.astype(dtype)
        if a.dtype.kind in "iub":
            a = a.astype(np.float64)
        here = np.equal(a, a)
        count = here.sum(axis, True)
        squares = np.abs(arithmetic.Where.apply(here, a - a.nanmean(axis, True), 0.0)) ** 2
        left = count - (ddof if correction is None else correction)
        share = arithmetic.Where.apply(left > 0, 1.0 / np.maximum(left, 1), math.nan).astype(squares.dtype)
        variance = squares.sum(axis, True) * share
        variance = variance if keepdims else variance.sum(axis)
        if name == "nanvar":
            return variance
        spread = variance > 0  # what does not differ has a derivative of 0, as by std()
        root = np.sqrt(arithmetic.Where.apply(spread, variance, 1.0))
        return arithmetic.Where.apply(spread, root, variance)

    return call


NAN_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.nansum: _without_nan("nansum"),
    np.nanmean: _without_nan("nanmean"),
    np.nanprod: _nanprod,
    np.nanmax: _best_of_numbers("nanmax"),
    np.nanmin: _best_of_numbers("nanmin"),
    np.nanvar: _nan_spread("nanvar"),
    np.nanstd: _nan_spread("nanstd"),
}
