"""NumPy's functions that are made of others, on tensors; see `shardwise.tensor.protocol`.

Each is written with the NumPy functions that have an op, which find their way back here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.dim import counted_dim

__all__ = ["COMPOSED_FUNCTIONS"]


def _cumulative(name: str, running: Any, initial: float) -> Callable[..., Any]:
    def call(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
        if axis is None and np.ndim(x) != 1:
            raise ShapeError(f"np.{name}: name the axis of shape {np.shape(x)} to run along")
        axis = 0 if axis is None else axis
        total = running(x, axis, dtype)
        if not include_initial:
            return total
        return np.concatenate([np.full_like(np.sum(total, axis, keepdims=True), initial), total], axis)

    return call


def _part(x: Any, axis: int, part: slice) -> Any:
    return x[(slice(None),) * (axis % np.ndim(x)) + (part,)]


def _without_nan(function: Any, instead: float) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        return function(np.where(np.isnan(a), instead, a) if a.dtype.kind in "fcV" else a, axis, dtype)

    return call


def _arg_without_nan(function: Any, instead: float) -> Callable[..., Any]:
    def call(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
        if a.dtype.kind not in "fcV":
            return function(a, axis, keepdims=keepdims)
        missing = np.isnan(a)
        if np.any(np.all(missing, axis)):
            raise ArgumentError("np.nanargmax and nanargmin: a slice has nothing but NaN")
        return function(np.where(missing, instead, a), axis, keepdims=keepdims)

    return call


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    parts = [to_begin, np.diff(np.ravel(ary)), to_end]
    return np.concatenate([np.ravel(part) for part in parts if part is not None])


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    if edge_order not in (1, 2):
        raise ArgumentError(f"np.gradient: edge_order must be 1 or 2, got {edge_order}")
    ndim = np.ndim(f)
    axes = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    steps = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(
            f"np.gradient: {len(steps)} spacings for {len(axes)} axes; give one, or one for each"
        )
    slopes = []
    for dim, step in zip(axes, steps, strict=True):
        moved = np.moveaxis(f, dim, -1)
        slopes.append(np.moveaxis(_slope(moved, step, edge_order), -1, dim))
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(f: Any, step: Any, edge_order: int) -> Any:
    """Return the derivative along the last dim: central differences inside, one-sided ones at both ends."""
    n = f.shape[-1]
    if n < edge_order + 1:
        raise ShapeError(
            f"np.gradient: {n} elements along a dim, and edge_order={edge_order} needs {edge_order + 1}"
        )
    f = f if f.dtype.kind in "fcV" else f.astype(np.float64)
    if np.ndim(step):
        h = np.diff(step)
        if h.shape[0] != n - 1:
            raise ShapeError(f"np.gradient: {h.shape[0] + 1} coordinates for {n} elements")
    else:
        h = np.broadcast_to(np.asarray(step, f.dtype) if not hasattr(step, "node") else step, (n - 1,))
    rise = np.diff(f) / h
    before, behind = h[:-1], h[1:]
    inside = (behind * rise[..., :-1] + before * rise[..., 1:]) / (before + behind)
    first, last = rise[..., :1], rise[..., -1:]
    if edge_order == 2:
        bend = np.diff(rise) / (before + behind)
        first = first - bend[..., :1] * h[:1]
        last = last + bend[..., -1:] * h[-1:]
    return np.concatenate([first, inside, last], -1)


def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    return _correlate(a, np.conjugate(np.flip(v)), mode)


def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Return sums of products of `a` with `v`, conjugated, at every offset."""
    n, m = np.size(a), np.size(v)
    if np.ndim(a) != 1 or np.ndim(v) != 1 or not n or not m:
        raise ShapeError(
            f"np.correlate: wanted two vectors that are not empty, got {np.shape(a)} and {np.shape(v)}"
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"np.correlate: mode must be 'full', 'same' or 'valid', got {mode!r}")
    if n < m:  # the longer one slides
        return np.conjugate(np.flip(_correlate(v, a, mode)))
    full = _windows(np.pad(a, m - 1), m) @ np.conjugate(v)
    if mode == "same":
        return full[(m - 1) // 2 :][:n]
    return full if mode == "full" else full[m - 1 : n]


def _windows(x: Any, size: int) -> Any:
    return x.unfold(0, size, 1) if hasattr(x, "node") else sliding_window_view(x, size)


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise ArgumentError("np.interp of a tensor takes no period; bring x and xp into one period before")
    if np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp) or not np.size(xp):
        raise ShapeError(f"np.interp: wanted two vectors of points, got {np.shape(xp)} and {np.shape(fp)}")
    last = np.size(xp) - 1
    place = np.clip(np.searchsorted(xp, x, side="right"), 1, max(last, 1))
    lower, upper = place - 1, np.minimum(place, last)
    low = np.take(xp, lower)
    span = np.where(lower == upper, 1.0, np.take(xp, upper) - low)
    y = np.take(fp, lower) + (x - low) / span * (np.take(fp, upper) - np.take(fp, lower))
    y = np.where(x < xp[0], fp[0] if left is None else left, y)
    return np.where(x > xp[-1], fp[-1] if right is None else right, y)


def _block(arrays: Any) -> Any:
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0]
    return _joined(arrays, depth)


def _joined(arrays: Any, depth: int) -> Any:
    if not isinstance(arrays, list):
        return arrays
    parts = [_joined(part, depth - 1) for part in arrays]
    ndim = max(depth, *[np.ndim(part) for part in parts])
    return np.concatenate([part[(None,) * (ndim - np.ndim(part))] for part in parts], -depth)


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    whole, dim = (np.ravel(arr), 0) if axis is None else (arr, counted_dim("insert", axis, np.ndim(arr)))
    if not isinstance(obj, (int, np.integer)):
        raise ArgumentError("np.insert of a tensor takes one place; concatenate the parts for several")
    size = whole.shape[dim]
    place = obj + size if obj < 0 else obj
    if not 0 <= place <= size:
        raise ArgumentError(f"np.insert: place {obj} lies outside of dim {dim} of size {size}")
    shape = [*whole.shape]
    if np.ndim(values) < whole.ndim:
        shape[dim] = 1 if axis is not None or not np.ndim(values) else np.size(values)
    else:
        shape[dim] = np.shape(values)[dim]
    given = np.broadcast_to(values if hasattr(values, "node") else np.asarray(values), tuple(shape))
    parts = [_part(whole, dim, slice(0, place)), given, _part(whole, dim, slice(place, None))]
    return np.concatenate([part.astype(whole.dtype) for part in parts], dim)


def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist):
        raise ArgumentError(
            f"np.select: {len(condlist)} conditions and {len(choicelist)} choices; wanted as many"
        )
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


def _polyval(p: Any, x: Any) -> Any:
    value = p[0] + 0 * x
    for coefficient in p[1:]:
        value = value * x + coefficient
    return value


def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    whole, dim = (np.ravel(a), 0) if axis is None else (a, axis)
    return np.take(whole, np.flatnonzero(condition), dim)


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    side: Any = "left" if right else "right"
    if np.size(bins) > 1 and bins[0] > bins[-1]:
        return np.size(bins) - np.searchsorted(np.flip(bins), x, side=side)
    return np.searchsorted(bins, x, side=side)


def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    count = x.shape[0] if N is None else N
    powers = np.arange(count) if increasing else np.arange(count)[::-1].copy()
    return x[:, None] ** powers.astype(x.dtype if x.dtype.kind in "iu" else np.int64)


def _set_of(keep: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def call(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
        return keep(np.unique(ar1), np.unique(ar2))

    return call


def _tensorinv(a: Any, ind: int = 2) -> Any:
    rows, columns = a.shape[:ind], a.shape[ind:]
    if ind < 1 or math.prod(rows) != math.prod(columns):
        raise ShapeError(f"np.linalg.tensorinv: the first {ind} dims of shape {a.shape} do not make a square")
    flat = np.reshape(a, (math.prod(rows), math.prod(columns)))
    return np.reshape(np.linalg.inv(flat), (*columns, *rows))


def _tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    if axes is not None:
        ndim = np.ndim(a)
        last = [axis % ndim for axis in axes]
        a = np.transpose(a, [*[d for d in range(ndim) if d not in last], *last])
    size = math.prod(np.shape(b))
    wanted = np.shape(a)[np.ndim(b) :]
    if math.prod(wanted) != size:
        raise ShapeError(
            f"np.linalg.tensorsolve: shapes {np.shape(a)} and {np.shape(b)} do not make a square"
        )
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.reshape(b, (size,))), wanted)


COMPOSED_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.nancumsum: _without_nan(np.cumsum, 0.0),
    np.nancumprod: _without_nan(np.cumprod, 1.0),
    np.nanargmax: _arg_without_nan(np.argmax, -np.inf),
    np.nanargmin: _arg_without_nan(np.argmin, np.inf),
    np.ediff1d: _ediff1d,
    np.gradient: _gradient,
    np.convolve: _convolve,
    np.correlate: _correlate,
    np.interp: _interp,
    np.block: _block,
    np.insert: _insert,
    np.select: _select,
    np.polyval: _polyval,
    np.compress: _compress,
    np.extract: lambda condition, arr: np.compress(np.ravel(condition), np.ravel(arr)),
    np.digitize: _digitize,
    np.vander: _vander,
    np.union1d: lambda ar1, ar2: np.unique(np.concatenate([np.ravel(ar1), np.ravel(ar2)])),
    np.intersect1d: _set_of(lambda a, b: a[np.isin(a, b)]),
    np.setdiff1d: _set_of(lambda a, b: a[np.isin(a, b, invert=True)]),
    np.setxor1d: _set_of(
        lambda a, b: np.union1d(a[np.isin(a, b, invert=True)], b[np.isin(b, a, invert=True)])
    ),
    np.linalg.tensorinv: _tensorinv,
    np.linalg.tensorsolve: _tensorsolve,
    np.partition: lambda a, kth, axis=-1, **options: np.sort(a, axis),
    np.argpartition: lambda a, kth, axis=-1, **options: np.argsort(a, axis),
}
"""From a NumPy function to what it does on tensors."""
if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    COMPOSED_FUNCTIONS |= {
        np.cumulative_sum: _cumulative("cumulative_sum", np.cumsum, 0.0),
        np.cumulative_prod: _cumulative("cumulative_prod", np.cumprod, 1.0),
        np.unstack: lambda x, /, *, axis=0: x.unbind(axis),
    }
if hasattr(np, "astype"):
    COMPOSED_FUNCTIONS[np.astype] = lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy)
