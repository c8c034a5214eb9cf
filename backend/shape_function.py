"""What each function of ``names.py`` gives, for the shapes and dtypes that it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from shardwise.backend.array import Array, DTypeLike, Shape
from shardwise.backend.errors import ShapeError
from shardwise.backend.shape_index import indexed_shape
from shardwise.backend.shape_linalg import LINALG_RULES
from shardwise.backend.shape_reduction import REDUCTION_RULES, Axis
from shardwise.backend.stand_in import broadcast_shape, data_dependent, empty_probe, one_probe, stand_in

__all__ = ["DATA_DEPENDENT", "RULES"]


def _where(condition: object, *choices: object) -> Array:
    if not choices:
        raise data_dependent("numpy.where with one argument")
    x, y = choices
    where: Callable[..., Array] = np.where
    dtype = where(np.empty(0, np.bool_), empty_probe(x), empty_probe(y)).dtype
    return stand_in(broadcast_shape(condition, x, y), dtype)


def _clip(
    a: Array, a_min: object = None, a_max: object = None, *, min: object = None, max: object = None
) -> Array:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    clip: Callable[..., Array] = np.clip
    dtype = clip(np.empty(0, a.dtype), empty_probe(low), empty_probe(high)).dtype
    return stand_in(broadcast_shape(a, low, high), dtype)


def _round(a: Array, decimals: int = 0) -> Array:
    return stand_in(a.shape, np.round(np.empty(0, a.dtype), decimals).dtype)


def _triangle(a: Array, k: int = 0) -> Array:
    if a.ndim == 0:
        raise ShapeError("tril, triu: wanted an array of at least one dim, got the shape ().")
    return stand_in(a.shape if a.ndim > 1 else (a.size, a.size), a.dtype)


def _ravel(a: Array, order: str = "C") -> Array:
    return stand_in((a.size,), a.dtype)


def _reshape(a: Array, /, shape: int | Shape, order: str = "C", **options: object) -> Array:
    return np.reshape(a, shape)  # a view: strides of 0 fit every shape


def _concatenate(arrays: Sequence[object], axis: int | None = 0, **options: object) -> Array:
    parts = [np.asarray(array) for array in arrays]
    join: Callable[..., Array] = np.concatenate
    dtype = join([np.empty((0,) * part.ndim, part.dtype) for part in parts], axis=axis, **options).dtype
    if axis is None:
        return stand_in((sum(part.size for part in parts),), dtype)
    at = normalize_axis_index(axis, parts[0].ndim)
    if len({part.shape[:at] + part.shape[at + 1 :] for part in parts}) != 1:
        listed = ", ".join(str(part.shape) for part in parts)
        raise ShapeError(f"concatenate along dim {at}: the other dims differ in {listed}.")
    length = sum(part.shape[at] for part in parts)
    return stand_in((*parts[0].shape[:at], length, *parts[0].shape[at + 1 :]), dtype)


def _stack(arrays: Sequence[object], axis: int = 0, **options: object) -> Array:
    parts = [np.asarray(array) for array in arrays]
    if len({part.shape for part in parts}) != 1:
        listed = ", ".join(str(part.shape) for part in parts)
        raise ShapeError(f"stack: wanted arrays of one shape, got {listed}.")
    at = normalize_axis_index(axis, parts[0].ndim + 1)
    return _concatenate([np.expand_dims(part, at) for part in parts], at, **options)


def _roll(a: Array, shift: int | Sequence[int], axis: Axis = None) -> Array:
    roll: Callable[..., Array] = np.roll
    roll(one_probe(a), shift, axis)  # for its errors
    return a


def _repeat(a: Array, repeats: object, axis: int | None = None) -> Array:
    if axis is None or a.ndim == 0:
        a, axis = _ravel(a), 0 if axis is None else axis
    axis = normalize_axis_index(axis, a.ndim)
    times = np.asarray(repeats)
    if times.size > 1 and not any(times.strides):
        raise data_dependent("numpy.repeat with a ShapeArray for its counts")
    if times.size not in (1, a.shape[axis]):
        raise ShapeError(f"repeat: {times.size} counts for dim {axis} of an array of shape {a.shape}.")
    length = int(times.reshape(-1)[0]) * a.shape[axis] if times.size == 1 else int(times.sum())
    return stand_in((*a.shape[:axis], length, *a.shape[axis + 1 :]), a.dtype)


def _tile(a: Array, reps: int | Sequence[int]) -> Array:
    times = (reps,) if isinstance(reps, int) else tuple(reps)
    ndim = max(a.ndim, len(times))
    lengths = (1,) * (ndim - a.ndim) + a.shape
    times = (1,) * (ndim - len(times)) + times
    return stand_in(tuple(n * t for n, t in zip(lengths, times, strict=True)), a.dtype)


def _pad(a: Array, pad_width: object, mode: str = "constant", **options: object) -> Array:
    pairs = np.broadcast_to(np.asarray(pad_width), (a.ndim, 2)).tolist()
    lengths = tuple(n + before + after for n, (before, after) in zip(a.shape, pairs, strict=True))
    return stand_in(lengths, a.dtype)


def _take(a: Array, indices: object, axis: int | None = None, mode: str = "raise") -> Array:
    places = np.asarray(indices)
    if axis is None or a.ndim == 0:
        a, axis = _ravel(a), 0 if axis is None else axis
    axis = normalize_axis_index(axis, a.ndim)
    if mode == "raise" and 0 not in a.shape[:axis]:  # otherwise there is nothing to take from
        indexed_shape(a.shape, (slice(None),) * axis + (places,))  # for its errors
    return stand_in(a.shape[:axis] + places.shape + a.shape[axis + 1 :], a.dtype)


def _take_along_axis(arr: Array, indices: Array, axis: int | None = -1) -> Array:
    if axis is None:
        arr, axis = _ravel(arr), 0
    if arr.ndim != indices.ndim:
        raise ShapeError(f"take_along_axis: the dims differ in number: {arr.shape} and {indices.shape}.")
    axis = normalize_axis_index(axis, arr.ndim)
    first = (slice(None),) * axis + (slice(0, 1),)
    shape = list(broadcast_shape(stand_in(arr.shape, bool)[first], stand_in(indices.shape, bool)[first]))
    shape[axis] = indices.shape[axis]
    if 0 not in shape:
        indexed_shape(arr.shape, (slice(None),) * axis + (indices,))  # for its errors
    return stand_in(tuple(shape), arr.dtype)


def _like(
    a: Array,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    **options: object,
) -> Array:
    return stand_in(a.shape if shape is None else _as_shape(shape), a.dtype if dtype is None else dtype)


def _full_like(
    a: Array,
    fill_value: object,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    **options: object,
) -> Array:
    return _like(a, dtype, shape=shape)


def _filled(shape: int | Sequence[int], dtype: DTypeLike | None = None, **options: object) -> Array:
    return stand_in(_as_shape(shape), np.float64 if dtype is None else dtype)


def _full(
    shape: int | Sequence[int], fill_value: object, dtype: DTypeLike | None = None, **options: object
) -> Array:
    return stand_in(_as_shape(shape), np.asarray(fill_value).dtype if dtype is None else dtype)


def _asarray(values: object, dtype: DTypeLike | None = None, **options: object) -> Array:
    given = np.asarray(values, dtype)
    return stand_in(given.shape, given.dtype)


def _arange(*limits: float, dtype: DTypeLike | None = None, **options: float) -> Array:
    values = dict(zip(("start", "stop", "step"), limits, strict=False)) | options
    if "stop" not in values:
        values = {**values, "start": 0, "stop": values["start"]}
    start, stop, step = values.get("start", 0), values["stop"], values.get("step", 1)
    arange: Callable[..., Array] = np.arange
    length = max(0, math.ceil((stop - start) / step))
    return stand_in((length,), arange(start, start, step, dtype).dtype)


def _as_shape(shape: int | Sequence[int]) -> Shape:
    return tuple(shape) if isinstance(shape, Sequence) else (shape,)


RULES: Mapping[Callable[..., object], Callable[..., object]] = {
    **REDUCTION_RULES,
    **LINALG_RULES,
    # These only make views, or read the shape.
    **{f: f for f in (np.transpose, np.swapaxes, np.moveaxis, np.expand_dims, np.squeeze, np.broadcast_to)},
    **{f: f for f in (np.split, np.flip, np.diagonal, np.real, np.imag)},
    **{f: f for f in (np.ndim, np.shape, np.size, np.result_type, np.iscomplexobj)},
    **dict.fromkeys((np.tril, np.triu), _triangle),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like), _like),
    **dict.fromkeys((np.zeros, np.ones, np.empty), _filled),
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.ravel: _ravel,
    np.reshape: _reshape,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.roll: _roll,
    np.repeat: _repeat,
    np.tile: _tile,
    np.pad: _pad,
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.full_like: _full_like,
    np.full: _full,
    np.arange: _arange,
    np.asarray: _asarray,
}
"""From a function to its rule, which takes the same arguments with stand-ins for arrays."""

DATA_DEPENDENT = frozenset(
    {
        *(np.nonzero, np.flatnonzero, np.argwhere, np.count_nonzero, np.unique, np.compress, np.extract),
        *(np.array_equal, np.allclose, np.bincount, np.histogram, np.union1d, np.intersect1d),
        *(np.setdiff1d, np.trim_zeros, np.place, np.putmask, np.array_str, np.array_repr, np.array2string),
    }
)
"""Functions whose result, or its shape, only data could tell."""
