"""What stands between the brackets of ``x[...]``: made plain, questioned, and told in letters."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

import numpy as np

from shardwise.backend.array import Array, Shape
from shardwise.backend.errors import DTypeError
from shardwise.tensor.ops.letter import LETTERS

__all__ = [
    "index_terms",
    "is_basic",
    "kept_index",
    "last_writes",
    "never_repeats",
    "plain_index",
    "spelled_index",
    "taken_dims",
]


def plain_index(index: Any) -> Any:
    """Return an index of integers, slices, None, Ellipsis and arrays, in a tuple if it was one.

    Tensors, lists and ranges become arrays; numbers without dims become Python's.

    Raises
    ------
    DTypeError
        If it holds numbers that are no integers.
    """
    return tuple([_plain(part) for part in index]) if isinstance(index, tuple) else _plain(index)


def _plain(part: Any) -> Any:
    kind = type(part)
    if kind is int or part is None or part is Ellipsis or kind is bool:
        return part
    if kind is slice:
        start, stop, step = part.start, part.stop, part.step
        if (start is None or type(start) is int) and (stop is None or type(stop) is int) and step is None:
            return part
        bounds = [None if bound is None else operator.index(bound) for bound in (start, stop, step)]
        return slice(*bounds)
    if hasattr(part, "node"):
        part = part.data
    if not hasattr(part, "dtype"):
        if isinstance(part, (float, complex, str)):
            raise DTypeError(f"an index must be integers, booleans or slices, not {part!r}")
        if not isinstance(part, (list, tuple, range)):
            return operator.index(part)
        array = np.asarray(part)
        part = array if array.size else array.astype(np.int64)  # an empty list holds floats, says NumPy
    if part.dtype.kind not in "iub":
        raise DTypeError(
            f"an index must be integers or booleans, not {part.dtype}; cast with long(), or compare first"
        )
    if isinstance(part, (np.ndarray, np.generic)) and part.ndim == 0:
        return part.item()
    return part


def is_basic(index: Any) -> bool:
    """Tell whether a plain index has only integers, slices, None and Ellipsis: then it gives a view."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is not int and kind is not slice and part is not None and part is not Ellipsis:
            return False
    return True


def never_repeats(index: Any) -> bool:
    """Tell whether a plain index cannot name a place twice: without arrays of integers it does not."""
    parts = index if isinstance(index, tuple) else (index,)
    return not any(getattr(part, "dtype", np.dtype(bool)).kind in "iu" for part in parts)


def kept_index(index: Any) -> Any:
    """Copy the arrays in an index: they are the caller's, who may write into them before backward."""
    if isinstance(index, tuple):
        return tuple([kept_index(part) for part in index])
    return index.copy() if hasattr(index, "dtype") else index


def spelled_index(index: Any, ndim: int) -> list[Any]:
    """Return the parts with the ellipsis, or the end where there is none, spelled out as whole dims.

    An ellipsis of no dims stays: it too sets arrays apart.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    missing = ndim - sum(taken_dims(part) for part in parts)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    whole: list[Any] = [slice(None)] * missing
    return [*parts[:at], *(whole or parts[at : at + 1]), *parts[at + 1 :]]


def taken_dims(part: Any) -> int:
    """How many dims a part of an index takes up."""
    if part is None or isinstance(part, (bool, EllipsisType)):
        return 0
    return part.ndim if getattr(part, "dtype", None) == np.bool_ else 1


def index_terms(shape: Shape, index: Any) -> tuple[str, list[str]]:
    """Tell in letters what a plain index does: the term of an array of `shape`, the parts of the result's.

    Dims that are taken whole keep their letter; all others must be whole.

    Parameters
    ----------
    shape : tuple of int
        What is indexed.
    index : plain index
    """
    fresh = iter(LETTERS[len(shape) :])
    before, after = "", []
    chosen = 0  # dims that the arrays share
    places: list[int] = []
    insert_at = dim = 0
    for place, part in enumerate(spelled_index(index, len(shape))):
        taken = taken_dims(part)
        letters = LETTERS[dim : dim + taken]
        dim += taken
        if isinstance(part, slice) and part == slice(None):
            before += letters
            after.append(letters)
            continue
        before += "".join(f"[{letter}]" for letter in letters)
        if part is Ellipsis:
            continue
        if part is None or isinstance(part, slice):
            after.append(f"[{next(fresh)}]")
            continue
        insert_at = insert_at if places else len(after)
        places.append(place)
        if type(part) is not int:
            mask = isinstance(part, bool) or part.dtype == np.bool_
            chosen = max(chosen, 1 if mask else part.ndim)
    if places and places != list(range(places[0], places[-1] + 1)) and not is_basic(index):
        insert_at = 0  # the dims of arrays that stand apart come first
    after[insert_at:insert_at] = [f"[{next(fresh)}]" for _ in range(chosen)]
    return before, after


def last_writes(shape: Shape, index: Any, like: Array) -> Array:
    """Tell where ``x[index] = values`` writes what stays, because no later value goes to the same place.

    Parameters
    ----------
    shape : tuple of int
        Of ``x``.
    index : plain index
    like : array
        Whose kind the result has.

    Returns
    -------
    boolean array
        Broadcasts to the shape of ``x[index]``.
    """
    parts = spelled_index(index, len(shape))
    sizes: list[int] = []
    key: list[Any] = []
    dim = 0
    for part in parts:
        taken = taken_dims(part)
        whole = isinstance(part, slice)  # all that lies along it is written alike: one place stands for them
        sizes += [1] * taken if whole else shape[dim : dim + taken]
        key.append(slice(None) if whole else part)
        dim += taken
    order = np.zeros(tuple(sizes), np.int64, like=like)
    chosen = order[tuple(key)].shape
    places = np.reshape(np.arange(int(np.prod(chosen)), like=like), chosen)
    order[tuple(key)] = places
    return order[tuple(key)] == places
