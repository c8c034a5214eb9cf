"""Indices for a part of an array: what ``x[index]`` means where only a part of ``x`` is held."""

from __future__ import annotations

from typing import Any

from shardwise.tensor.ops.key import spelled_index, taken_dims
from shardwise.tensor.signature import Part

__all__ = ["part_index"]


def part_index(index: Any, array: Part, result: Part) -> Any:
    """Return the index that takes a part of the result out of a part of the array.

    Parameters
    ----------
    index : plain index
        Of the whole. What it says of dims that lie in parts must be slices of positive steps.
    array, result : Part
        Of the result, those elements that lie in the part of the array.

    Examples
    --------
    >>> part_index(slice(1, 9, 3), Part((4,), (4,), (10,)), Part((1,), (2,), (3,)))
    (slice(0, 4, 3),)
    """
    key: list[Any] = []
    dim = at = 0
    for each in spelled_index(index, len(array.whole)):
        if isinstance(each, slice):
            whole = array.shape[dim] == array.whole[dim]
            key.append(each if whole or each == slice(None) else _part_slice(each, dim, at, array, result))
        else:
            key.append(each)
        at += each is None or isinstance(each, slice)
        dim += taken_dims(each)
    return tuple(key)


def _part_slice(each: slice, dim: int, at: int, array: Part, result: Part) -> slice:
    count = result.shape[at]
    if not count:
        return slice(0, 0)
    start, _, step = each.indices(array.whole[dim])
    first = start + result.offset[at] * step - array.offset[dim]
    return slice(first, first + (count - 1) * step + 1, step)
