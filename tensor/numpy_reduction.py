"""NumPy's reductions, running results, orders and counts on tensors, with NumPy's argument names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.backend.select import backend_of
from shardwise.tensor.methods.along import along
from shardwise.tensor.methods.area import total_area
from shardwise.tensor.methods.distinct import distinct
from shardwise.tensor.numpy_nan import NAN_FUNCTIONS
from shardwise.tensor.numpy_option import refuse
from shardwise.tensor.ops import extreme, reduce, scan, search

__all__ = ["REDUCTION_FUNCTIONS"]


def _reduction(name: str, function: Any) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, **options: Any) -> Any:
        refuse(name, {"out": out, **options})
        return function.apply(a, dim=axis, keepdim=keepdims)

    return call


def _total(name: str, function: Any) -> Callable[..., Any]:
    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, **options: Any
    ) -> Any:
        refuse(name, {"out": out, **options})
        return function.apply(a if dtype is None else a.astype(dtype), dim=axis, keepdim=keepdims)

    return call


def _method(name: str) -> Callable[..., Any]:
    """Give the form of a reduction that is a method of several ops."""

    def call(a: Any, axis: Any = None, out: None = None, *, keepdims: bool = False, **options: Any) -> Any:
        refuse(name, {"out": out, **options})
        return _METHODS[name](a, axis, keepdims)

    return call


_METHODS: dict[str, Callable[..., Any]] = {
    "ptp": lambda a, axis, keepdims: a.ptp(axis, keepdims),
    "median": lambda a, axis, keepdims: a.quantile(0.5, axis, keepdims),
    "nanmedian": lambda a, axis, keepdims: a.nanquantile(0.5, axis, keepdims),
}


def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Take the mean, or that with weights: one per element, or per element along `axis`."""
    if weights is None:
        mean = a.mean(axis, keepdims)
        size = np.size(a) // max(np.size(mean), 1)
        return (mean, np.full_like(mean, size)) if returned else mean
    if np.shape(weights) != a.shape:
        if not isinstance(axis, int) or np.shape(weights) != (a.shape[axis],):
            raise ShapeError(
                f"np.average: weights of shape {np.shape(weights)} have neither the shape {a.shape} nor one "
                f"number per element along axis={axis}"
            )
        weights = np.reshape(weights, [-1 if dim == axis % a.ndim else 1 for dim in range(a.ndim)])
    total = np.sum(np.broadcast_to(weights, a.shape), axis, keepdims=keepdims)
    mean = (a * weights).sum(axis, keepdims) / total
    return (mean, total) if returned else mean


def _spread(name: str) -> Callable[..., Any]:
    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: float = 0,
        keepdims: bool = False, *, correction: float | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        refuse(name, {"out": out, **options})
        a = a if dtype is None else a.astype(dtype)
        method = a.var if name == "var" else a.std
        return method(axis, correction=ddof if correction is None else correction, keepdim=keepdims)

    return call


def _running(function: Any) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        a = a if dtype is None else a.astype(dtype)
        return along(function, a.reshape(-1) if axis is None else a, "axis", 0 if axis is None else axis)

    return call


def _sort(a: Any, axis: int | None = -1, kind: object = None, order: None = None, **options: Any) -> Any:
    """Sort; it is stable whatever `kind` and ``stable`` ask for."""
    refuse("sort", {"order": order})
    return a.reshape(-1).sort(0).values if axis is None else a.sort(axis).values


def _argsort(a: Any, axis: int | None = -1, kind: object = None, order: None = None, **options: Any) -> Any:
    refuse("argsort", {"order": order})
    return a.reshape(-1).argsort(0) if axis is None else a.argsort(axis)


def _quantile(name: str, of: float) -> Callable[..., Any]:
    def call(
        a: Any, q: Any, axis: int | None = None, out: None = None, overwrite_input: bool = False,
        method: str = "linear", keepdims: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        refuse(name, {"out": out, **options})
        if not hasattr(q, "node") and not isinstance(q, (int, float)):
            dtype = a.dtype if a.dtype.kind in "fV" else np.float64
            q = a.wrap(backend_of(a.data).asarray(np.asarray(q, dtype)))
        share = q if of == 1.0 else q / of
        take = a.nanquantile if name.startswith("nan") else a.quantile
        return take(share, axis, keepdims, interpolation=method)

    return call


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    def edge(value: Any) -> Any:
        """Give a number the shape of one more place."""
        if value is None or np.ndim(value):
            return value
        one = tuple([1 if dim == axis % a.ndim else n for dim, n in enumerate(a.shape)])
        return np.broadcast_to(value, one)

    return a.diff(n, axis, edge(prepend), edge(append))


def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    return distinct(
        "unique",
        ar,
        axis,
        equal_nan=equal_nan,
        first=return_index,
        inverse=return_inverse,
        counts=return_counts,
    )


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if side not in ("left", "right"):
        raise ArgumentError(f"np.searchsorted: side={side!r}; wanted 'left' or 'right'")
    ordered = a if sorter is None else np.take_along_axis(a, sorter, axis=-1)
    return search.SearchSorted.apply(ordered, v, right=side == "right")


def _isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: object = None,
) -> Any:
    return search.IsIn.apply(element, test_elements, assume_unique=assume_unique, invert=invert)


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    return x.bincount(weights, minlength)


def _histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any:
    hist, edges = a.histogram(bins, range=range, weight=weights, density=bool(density))
    return (hist if density or weights is not None else hist.astype(np.int64)), edges


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    a = a if dtype is None else a.astype(dtype)
    return reduce.Trace.apply(a, offset=offset, dim1=axis1, dim2=axis2)


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    correction = (0 if bias else 1) if ddof is None else ddof
    return _rows(m, y, rowvar, dtype).cov(correction=correction, fweights=fweights, aweights=aweights)


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    return _rows(x, y, rowvar, dtype).corrcoef()


def _rows(x: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """Return the variables of both in rows."""
    both = [np.reshape(z, (1, -1)) if z.ndim < 2 else z if rowvar else z.T for z in (x, y) if z is not None]
    rows = both[0] if len(both) == 1 else np.concatenate(both, axis=0)
    return rows if dtype is None else rows.astype(dtype)


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    return total_area("np.trapezoid", y, x, dx, axis)


REDUCTION_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _total("sum", reduce.Sum),
    np.mean: _total("mean", reduce.Mean),
    np.prod: _total("prod", reduce.Prod),
    np.max: _reduction("max", extreme.Amax),
    np.amax: _reduction("amax", extreme.Amax),
    np.min: _reduction("min", extreme.Amin),
    np.amin: _reduction("amin", extreme.Amin),
    np.argmax: _reduction("argmax", extreme.Argmax),
    np.argmin: _reduction("argmin", extreme.Argmin),
    np.all: _reduction("all", reduce.AllTrue),
    np.any: _reduction("any", reduce.AnyTrue),
    np.count_nonzero: _reduction("count_nonzero", reduce.CountNonzero),
    **{getattr(np, name): _method(name) for name in _METHODS},
    **NAN_FUNCTIONS,
    np.average: _average,
    np.var: _spread("var"),
    np.std: _spread("std"),
    np.cumsum: _running(scan.Cumsum),
    np.cumprod: _running(scan.Cumprod),
    np.diff: _diff,
    np.sort: _sort,
    np.argsort: _argsort,
    np.quantile: _quantile("quantile", 1.0),
    np.percentile: _quantile("percentile", 100.0),
    np.nanquantile: _quantile("nanquantile", 1.0),
    np.nanpercentile: _quantile("nanpercentile", 100.0),
    np.unique: _unique,
    np.nonzero: lambda a: a.nonzero(as_tuple=True),
    np.argwhere: lambda a: a.argwhere(),
    np.flatnonzero: lambda a: a.reshape(-1).nonzero(as_tuple=True)[0],
    np.searchsorted: _searchsorted,
    np.isin: _isin,
    np.bincount: _bincount,
    np.histogram: _histogram,
    np.trace: _trace,
    np.cov: _cov,
    np.corrcoef: _corrcoef,
    np.trapezoid: _trapezoid,
}
"""From a function of NumPy to its form on tensors, which takes the same arguments."""
