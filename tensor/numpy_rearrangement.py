"""NumPy's functions that move values, on tensors, with NumPy's argument names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor import joining, meshing
from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops import arithmetic, padding, take, triangle, view

__all__ = ["REARRANGEMENT_FUNCTIONS"]

Axis = int | Sequence[int] | None


def _matrix(m: Any) -> Any:
    """Return what NumPy takes the triangle of: of a vector as many rows as it is long."""
    return m if np.ndim(m) != 1 else np.broadcast_to(m, (np.shape(m)[0],) * 2)


def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    _only_rows("reshape", order)
    return a.reshape(shape) if not copy else a.reshape(shape).clone()


def _ravel(a: Any, order: str = "C") -> Any:
    _only_rows("ravel", order)
    return a.reshape(-1)


def _only_rows(name: str, order: str) -> None:
    if order not in ("C", "K", "A"):
        raise ArgumentError(
            f"np.{name} of a tensor takes order 'C', got {order!r}; transpose before and after"
        )


def _expand_dims(a: Any, axis: Axis) -> Any:
    dims = (axis,) if isinstance(axis, int) else tuple(axis or ())
    ndim = a.ndim + len(dims)
    new = {counted_dim("expand_dims", dim, ndim) for dim in dims}
    if len(new) != len(dims):
        raise ShapeError(f"expand_dims: a dim is named twice in {dims}")
    sizes = iter(a.shape)
    return a.reshape([1 if d in new else next(sizes) for d in range(ndim)])


def _squeeze(a: Any, axis: Axis = None) -> Any:
    dims = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for dim in dims:
        if a.shape[dim] != 1:
            raise ShapeError(f"np.squeeze: dim {dim} of shape {a.shape} has not size one")
    return a.squeeze(axis)


def _concatenate(arrays: Sequence[Any], /, axis: int | None = 0, *, dtype: Any = None, **rest: Any) -> Any:
    parts = [view.Reshape.apply(part, shape=(-1,)) for part in arrays] if axis is None else arrays
    return _cast(joining.concatenate(parts, 0 if axis is None else axis), dtype)


def _stack(arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None, **rest: Any) -> Any:
    return _cast(joining.stack(arrays, axis), dtype)


def _cast(joined: Any, dtype: Any) -> Any:
    return joined if dtype is None else joined.astype(dtype)


def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    axis = counted_dim("rollaxis", axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return a.movedim(axis, start - 1 if axis < start else start)


def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return _concatenate([arr, values], axis)


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    total = ary.shape[axis]
    if isinstance(indices_or_sections, int) and total % indices_or_sections:
        raise ShapeError(f"np.split: dim {axis} of size {total} has no {indices_or_sections} equal parts")
    return list(ary.tensor_split(indices_or_sections, axis))


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(ary.tensor_split(indices_or_sections, axis))


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    return a.repeat_interleave(repeats, axis)


def _tile(A: Any, reps: int | Sequence[int]) -> Any:
    return A.tile(reps)


def _flip(m: Any, axis: Axis = None) -> Any:
    return m.flip(tuple(range(m.ndim)) if axis is None else axis)


def _pad(array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Any:
    value = options.pop("constant_values", 0)
    if options.pop("reflect_type", "even") != "even" or options or np.ndim(value):
        raise ArgumentError("np.pad of a tensor takes one number for constant_values, and no other options")
    if mode not in padding.PAD_MODES:
        raise ArgumentError(
            f"np.pad of a tensor: mode must be one of {', '.join(padding.PAD_MODES)}; got {mode!r}"
        )
    if isinstance(pad_width, dict):
        widths = np.zeros((array.ndim, 2), np.int64)
        for axis, pair in pad_width.items():
            widths[axis] = pair
    else:
        widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2))
    pads = tuple([(int(before), int(after)) for before, after in widths])
    for dim, (pair, n) in enumerate(zip(pads, array.shape, strict=True)):
        if min(pair) < 0:
            raise ArgumentError(f"np.pad: widths must be at least 0, got {pair} for dim {dim}")
        if mode != "constant" and n == 0 and max(pair):
            raise ShapeError(
                f"np.pad: dim {dim} of shape {array.shape} has nothing to continue in mode {mode!r}"
            )
    return padding.Pad.apply(array, pads=pads, mode=mode, value=value)


def _take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    if mode != "raise" or out is not None:
        raise ArgumentError(
            "np.take of a tensor takes no out, and the mode 'raise' only; clip the indices before"
        )
    if axis is None:
        return a.take(indices)
    places = a._places("take", np.asarray(indices) if isinstance(indices, (int, tuple)) else indices)
    return take.IndexSelect.apply(a, places, dim=counted_dim("take", axis, a.ndim), negative=True)


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    whole, dim = (arr.reshape(-1), 0) if axis is None else (arr, counted_dim("delete", axis, arr.ndim))
    return whole.index_select(dim, np.delete(np.arange(whole.shape[dim]), obj))


def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    results = meshing.grids(xi, indexing, sparse)
    return tuple([arithmetic.Clone.apply(result) for result in results]) if copy else results


def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    shape = np.broadcast_shapes(*[np.shape(arg) for arg in args])
    return tuple([view.Expand.apply(arg, shape=shape) for arg in args])


def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return a.diagonal(offset, axis1, axis2)


REARRANGEMENT_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    # other dims
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.transpose: lambda a, axes=None: a.T if axes is None else a.permute(axes),
    np.matrix_transpose: lambda x, /: x.mT,
    np.swapaxes: lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    np.moveaxis: lambda a, source, destination: a.movedim(source, destination),
    np.linalg.matrix_transpose: lambda x, /: x.mT,
    np.rollaxis: _rollaxis,
    np.expand_dims: _expand_dims,
    np.squeeze: _squeeze,
    np.broadcast_to: lambda array, shape, subok=False: array.expand(shape),
    np.broadcast_arrays: _broadcast_arrays,
    np.atleast_1d: lambda *arys: meshing.atleast_1d(*arys),
    np.atleast_2d: lambda *arys: meshing.atleast_2d(*arys),
    np.atleast_3d: lambda *arys: meshing.atleast_3d(*arys),
    # together and apart
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.hstack: lambda tup, *, dtype=None, casting="same_kind": _cast(joining.hstack(tup), dtype),
    np.vstack: lambda tup, *, dtype=None, casting="same_kind": _cast(joining.vstack(tup), dtype),
    np.dstack: lambda tup: joining.dstack(tup),
    np.column_stack: lambda tup: joining.column_stack(tup),
    np.append: _append,
    np.split: _split,
    np.array_split: _array_split,
    np.hsplit: lambda ary, indices_or_sections: list(ary.hsplit(indices_or_sections)),
    np.vsplit: lambda ary, indices_or_sections: list(ary.vsplit(indices_or_sections)),
    np.dsplit: lambda ary, indices_or_sections: list(ary.dsplit(indices_or_sections)),
    np.meshgrid: _meshgrid,
    # turned and repeated
    np.flip: _flip,
    np.fliplr: lambda m: m.fliplr(),
    np.flipud: lambda m: m.flipud(),
    np.roll: lambda a, shift, axis=None: a.roll(shift, axis),
    np.rot90: lambda m, k=1, axes=(0, 1): m.rot90(k, axes),
    np.repeat: _repeat,
    np.tile: _tile,
    np.pad: _pad,
    # triangles and diagonals
    np.tril: lambda m, k=0: triangle.Tril.apply(_matrix(m), k=k),
    np.triu: lambda m, k=0: triangle.Triu.apply(_matrix(m), k=k),
    np.diagonal: _diagonal,
    np.linalg.diagonal: lambda x, /, *, offset=0: x.diagonal(offset, -2, -1),
    np.diag: lambda v, k=0: v.diag(k),
    np.diagflat: lambda v, k=0: v.diagflat(k),
    # by index
    np.take: _take,
    np.take_along_axis: lambda arr, indices, axis=-1: arr.take_along_dim(indices, axis),
    np.delete: _delete,
    # the same again
    np.copy: lambda a, order="K", subok=False: a.clone(),
    np.zeros_like: lambda a, **rest: a.wrap(np.zeros_like(a.data, **rest)),
    np.ones_like: lambda a, **rest: a.wrap(np.ones_like(a.data, **rest)),
    np.full_like: lambda a, fill_value, **rest: a.wrap(np.full_like(a.data, fill_value, **rest)),
    np.empty_like: lambda a, **rest: a.wrap(np.empty_like(a.data, **rest)),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.numel() if axis is None else a.size(axis),
}
"""From a NumPy function to what it does on tensors."""
