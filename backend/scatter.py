"""Addition into chosen places of a NumPy array, however they are chosen, as few long additions.

NumPy's own ``add.at`` takes some ten nanoseconds per element for all but one-dimensional arrays. Here
an index is first brought to one form: an array of integers along the middle of three dims.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import TypeAlias, TypeGuard

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.kernels.place.scatter import scatter_rows
from shardwise.backend.kind import is_narrow

__all__ = ["added_at"]

_FUSED_FROM = 1 << 14  # elements; below, loading the compiled code would cost more than it saves
_Part: TypeAlias = Array | slice | int | None


def added_at(shape: Shape, index: tuple[object, ...], updates: Array) -> Array:
    """Zeros of `shape`, with `updates` added at `index`.

    Parameters
    ----------
    shape : tuple of int
    index : tuple
        What NumPy's indexing takes, without lists.
    updates : array
        Broadcast to what the index selects.

    Raises
    ------
    IndexError, ValueError
        As NumPy does.
    """
    if is_narrow(updates.dtype):  # sums in eight bits are worth nothing
        return added_at(shape, index, updates.astype(np.float32)).astype(updates.dtype)
    if any(isinstance(part, bool | np.bool_) or (_is_mask(part) and part.ndim == 0) for part in index):
        out = np.zeros(shape, updates.dtype)
        np.add.at(out, index, updates)  # type: ignore[arg-type]  # NumPy's stubs leave tuples out
        return out
    parts = _expanded(len(shape), index)
    inner: list[_Part] = [slice(None) if part is None or isinstance(part, slice) else part for part in parts]
    basic = tuple(part if part is None or isinstance(part, slice) else slice(None) for part in parts)
    if all(isinstance(part, slice) for part in inner):
        out = np.zeros(shape, updates.dtype)
        out[basic] = updates  # no place comes twice
        return out
    if all(part == slice(None) for part in basic):
        return _advanced(shape, inner, updates, _are_apart(index))
    out = np.zeros(shape, updates.dtype)
    seen = out[basic]
    seen[...] = _advanced(seen.shape, inner, updates, _are_apart(index))
    return out


def _expanded(ndim: int, index: tuple[object, ...]) -> list[_Part]:
    """One part per dim, and None for new ones: masks as integers, the ellipsis spelled out."""
    parts: list[_Part | EllipsisType] = []
    for part in index:
        if _is_mask(part):
            parts += part.nonzero()
        else:
            parts.append(part)  # type: ignore[arg-type]  # what else there is NumPy refuses itself
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > ndim:
        raise IndexError(f"too many indices: {used} for {ndim} dims")
    whole: list[_Part] = [slice(None)] * (ndim - used)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    return [*parts[:at], *whole, *parts[at + 1 :]]  # type: ignore[list-item]  # the ellipsis is gone


def _is_mask(part: object) -> TypeGuard[Array]:
    return isinstance(part, np.ndarray) and part.dtype == np.bool_


def _are_apart(index: tuple[object, ...]) -> bool:
    """Tell whether an ellipsis, even one of no dims, stands between the integers and arrays of an index."""
    at = next((i for i, part in enumerate(index) if part is Ellipsis), len(index))
    return all(
        any(not (part is None or isinstance(part, slice)) for part in side)
        for side in (index[:at], index[at + 1 :])
    )


def _advanced(shape: Shape, parts: list[_Part], updates: Array, apart: bool) -> Array:
    """`added_at` where every part is an integer, an array of integers, or a whole dim.

    The dims of arrays that stand `apart` come first in `updates`, those of others in their place.
    """
    dims = [d for d, part in enumerate(parts) if not isinstance(part, slice)]
    places = np.broadcast_arrays(*(_places(np.asarray(parts[d]), d, shape[d]) for d in dims))
    chosen = places[0].shape
    together = dims[-1] - dims[0] == len(dims) - 1 and not apart
    first = dims[0] if together else 0
    order = [*dims, *(d for d in range(len(shape)) if d not in dims)]
    sizes = shape if together else tuple(shape[d] for d in order)
    outer, inner = sizes[:first], sizes[first + len(dims) :]
    g = np.broadcast_to(updates, (*outer, *chosen, *inner))
    rows, size = places[0], shape[dims[0]]
    for d, place in zip(dims[1:], places[1:], strict=True):
        rows, size = rows * shape[d] + place, size * shape[d]
    folded = g.reshape(math.prod(outer), rows.size, math.prod(inner))
    add = scatter_rows if g.size >= _FUSED_FROM and folded.shape != (1, g.size, 1) else scatter_rows.plain
    out = add(folded, rows.reshape(-1), size).reshape(sizes)
    return out if together else np.transpose(out, np.argsort(order))


def _places(index: Array, dim: int, size: int) -> Array:
    """An index of one dim, counted from the front."""
    if index.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integers or booleans, not {index.dtype}")
    if index.size == 0:
        return index.astype(np.int64)
    low, high = int(index.min()), int(index.max())
    if low < -size or high >= size:
        wrong = high if high >= size else low
        raise IndexError(f"index {wrong} is out of bounds for axis {dim} with size {size}")
    index = index.astype(np.int64, copy=False)
    return np.where(index < 0, index + size, index) if low < 0 else index
