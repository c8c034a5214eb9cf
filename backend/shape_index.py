"""The shape of ``array[index]``, by NumPy's rules for basic and advanced indexing, without an array."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import NamedTuple, TypeAlias

import numpy as np

from shardwise.backend.array import Shape
from shardwise.backend.errors import DataDependentShapeError, IndexRangeError, ShapeError
from shardwise.backend.source import source_line

__all__ = ["indexed_shape"]


class _IndexArray(NamedTuple):
    """What matters of an integer array that is used as an index."""

    shape: Shape
    low: int  # the range of its values, 0 and 0 where there are none to be seen
    high: int


_Selector: TypeAlias = slice | int | _IndexArray  # these take up a dim
_Item: TypeAlias = _Selector | EllipsisType | None


def indexed_shape(shape: Shape, index: object) -> Shape:
    """The shape that indexing an array of `shape` with `index` gives.

    Parameters
    ----------
    shape : tuple of int
    index : int, slice, None, Ellipsis, integer array, or a tuple of these
        Arrays of any kind count by their shape and dtype; values of NumPy arrays are checked too.

    Returns
    -------
    tuple of int

    Raises
    ------
    DataDependentShapeError
        For a boolean mask: how many elements it selects is in its data.
    IndexRangeError
        For an index outside its dim, too many indices, or one of a wrong type.
    ShapeError
        If index arrays do not broadcast together.
    """
    items = _expanded(shape, index if isinstance(index, tuple) else (index,))
    advanced = any(isinstance(item, _IndexArray) for item in items)
    parts: list[int] = []  # the lengths that slices and new dims leave, in order
    arrays: list[Shape] = []
    places: list[int] = []  # of the advanced items, among all
    insert_at = 0
    dim = 0
    for place, item in enumerate(items):
        if item is None:
            parts.append(1)
            continue
        if isinstance(item, EllipsisType):
            continue
        if isinstance(item, slice):
            parts.append(len(range(*item.indices(shape[dim]))))
        else:
            _check_range(item, dim, shape)
            if not places:
                insert_at = len(parts)
            places.append(place)
            # Beside an index array a plain integer acts as one of no dims.
            arrays.append(item.shape if isinstance(item, _IndexArray) else ())
        dim += 1
    if not advanced:
        return tuple(parts)
    if places != list(range(places[0], places[-1] + 1)):
        insert_at = 0  # the dims of index arrays that stand apart come first
    try:
        selected = np.broadcast_shapes(*arrays)
    except ValueError as error:
        raise ShapeError(
            f"the index arrays have shapes {arrays}, which do not broadcast together."
        ) from error
    return (*parts[:insert_at], *selected, *parts[insert_at:])


def _expanded(shape: Shape, index: tuple[object, ...]) -> list[_Item]:
    """`index` with the ellipsis (or the end, where there is none) filled with whole dims.

    An ellipsis of no dims stays: it too sets index arrays apart.
    """
    items = [_item(part) for part in index]
    used = sum(item is not None and not isinstance(item, EllipsisType) for item in items)
    ellipses = sum(isinstance(item, EllipsisType) for item in items)
    if ellipses > 1:
        raise IndexRangeError("an index can have one ellipsis ('...') only.")
    if used > len(shape):
        raise IndexRangeError(f"too many indices: {used} for an array of shape {shape}.")
    whole: list[_Item] = [slice(None)] * (len(shape) - used)
    expanded: list[_Item] = []
    for item in items:
        if isinstance(item, EllipsisType):
            expanded += whole or [item]
        else:
            expanded.append(item)
    return expanded if ellipses else expanded + whole


def _item(part: object) -> _Item:
    if part is None or isinstance(part, slice | EllipsisType):
        return part
    if isinstance(part, list):
        part = np.asarray(part, dtype=None if part else np.intp)
    if isinstance(part, bool | np.bool_):
        raise _mask_error()
    if isinstance(part, int | np.integer):
        return int(part)
    shape, dtype = getattr(part, "shape", None), getattr(part, "dtype", None)
    if shape is not None and dtype is not None:
        kind = np.dtype(dtype).kind
        if kind == "b":
            raise _mask_error()
        if kind in "iu":
            if isinstance(part, np.ndarray) and part.size:
                # One element speaks for all where they are the same one, as in a stand-in of any size.
                values = part if any(part.strides) else part[(slice(0, 1),) * part.ndim]
                return _IndexArray(part.shape, int(values.min()), int(values.max()))
            return _IndexArray(tuple(shape), 0, 0 if 0 not in shape else -1)
    try:
        return operator.index(part)  # type: ignore[arg-type]  # what has no __index__ raises TypeError
    except TypeError:
        raise IndexRangeError(
            "wanted integers, slices, '...', None or integer arrays as indices, got "
            f"{type(part).__name__}{'' if dtype is None else f' of {dtype}'}."
        ) from None


def _check_range(item: int | _IndexArray, dim: int, shape: Shape) -> None:
    length = shape[dim]
    low, high = (item, item) if isinstance(item, int) else (item.low, item.high)
    if low > high:  # an empty index array fits everywhere
        return
    if low < -length or high >= length:
        wrong = low if low < -length else high
        raise IndexRangeError(
            f"index {wrong} is out of bounds for dim {dim} of an array of shape {shape}: wanted "
            f"{-length} to {length - 1}."
        )


def _mask_error() -> DataDependentShapeError:
    return DataDependentShapeError(
        f"indexing with a boolean mask at {source_line()}: how many elements it selects depends on its data, "
        "which a ShapeArray does not hold. Use numpy.where(mask, x, 0.0), whose shape is known."
    )
