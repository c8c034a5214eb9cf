"""What reductions, running sums, sorts and searches give, for the shape and dtype that they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.stand_in import broadcast_shape, one_probe, stand_in

__all__ = ["REDUCTION_RULES", "Axis", "reduced_shape", "reduction"]

Axis = int | Sequence[int] | None


def reduced_shape(shape: Shape, axis: Axis, keepdims: bool) -> Shape:
    """`shape` without the dims of `axis` (None for all), or with 1 in their place."""
    axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    if keepdims:
        return tuple(1 if dim in axes else length for dim, length in enumerate(shape))
    return tuple(length for dim, length in enumerate(shape) if dim not in axes)


def reduction(function: Callable[..., object], of_ones: bool = False) -> Callable[..., Array]:
    """The rule of a reduction; `of_ones` for those that warn about empty rows when they are probed."""

    def rule(a: Array, axis: Axis = None, dtype: DTypeLike | None = None, **options: object) -> Array:
        keepdims = bool(options.pop("keepdims", False))
        where = options.pop("where", None)
        options.pop("ddof", None)
        if dtype is not None:
            options["dtype"] = dtype
        probe = np.ones((1,) * a.ndim, a.dtype) if of_ones else one_probe(a)
        result = np.asarray(function(probe, axis=axis, **options))
        if a.ndim == 0:
            axis = None  # which NumPy lets pass for 0 and -1 too, in some functions
        shape = a.shape if where is None else broadcast_shape(a, where)
        return stand_in(reduced_shape(shape, axis, keepdims), result.dtype)

    return rule


def _arg_reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    def rule(a: Array, axis: int | None = None, *, keepdims: bool = False) -> Array:
        function(one_probe(a), axis=axis)
        return stand_in(reduced_shape(a.shape, axis if a.ndim else None, keepdims), np.intp)

    return rule


def _along(function: Callable[..., Array], default: int | None) -> Callable[..., Array]:
    """The rule of a function that keeps the shape, and flattens where the axis is None."""

    def rule(a: Array, axis: int | None = default, **options: object) -> Array:
        result = function(one_probe(a), axis=axis, **options)
        if a.ndim == 0:
            return result
        return stand_in((a.size,) if axis is None else a.shape, result.dtype)

    return rule


def _partition(a: Array, kth: int, axis: int | None = -1, **options: object) -> Array:
    result = _along(np.sort, -1)(a, axis=axis)
    length = result.shape[-1 if axis is None else axis] if result.ndim else 1
    if result.size and not -length <= kth < length:
        raise ShapeError(f"partition: there is no place {kth} among {length} in an array of shape {a.shape}.")
    return result


def _searchsorted(a: Array, v: object, side: str = "left", sorter: object = None) -> Array:
    np.searchsorted(one_probe(a), 0, side)  # type: ignore[call-overload]  # for its errors
    return stand_in(np.asarray(v).shape, np.intp)


def _isin(element: object, test_elements: object, *args: object, **options: object) -> Array:
    return stand_in(np.asarray(element).shape, np.bool_)


REDUCTION_RULES: Mapping[Callable[..., object], Callable[..., Array]] = {
    **{function: reduction(function) for function in (np.sum, np.prod, np.amax, np.amin, np.max, np.min)},
    **{function: reduction(function) for function in (np.all, np.any)},
    **{function: reduction(function, of_ones=True) for function in (np.mean, np.var, np.std)},
    **{function: _arg_reduction(function) for function in (np.argmax, np.argmin)},
    **{function: _along(function, None) for function in (np.cumsum, np.cumprod)},
    **{function: _along(function, -1) for function in (np.sort, np.argsort)},
    np.partition: _partition,
    np.searchsorted: _searchsorted,
    np.isin: _isin,
}
"""From a function to its rule, which takes the same arguments with stand-ins for arrays."""
