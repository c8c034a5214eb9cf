"""Finding where values belong: in sorted sequences, and in sets."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.methods.carrier import Operand
from shardwise.tensor.ops import gather, search
from shardwise.tensor.tensor import Tensor

__all__ = ["bucketize", "isin", "searchsorted"]


def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the indices at which values would go into sorted rows without breaking their order.

    Parameters
    ----------
    sorted_sequence : Tensor, shape (n,) or (..., n)
        In rising order along the last dim.
    input : Tensor or number
        Any shape for one row; for several, the same leading dims.
    out_int32 : bool
        Indices as int32 instead of int64.
    right : bool
        Behind values that are equal, instead of before them.
    side : "left" or "right", optional
        Another way to say `right`.
    sorter : Tensor of int, optional
        Indices that bring rows which are not sorted into order.

    Returns
    -------
    Tensor of int64
        Shape of `input`.

    Raises
    ------
    ShapeError
        The leading dims differ.
    ArgumentError
        `side` and `right` say different things.

    Examples
    --------
    >>> import shardwise as sw
    >>> searchsorted(sw.tensor([1, 3, 5]), sw.tensor([3, 6]), right=True).tolist()
    [2, 3]
    """
    if side not in (None, "left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r}; wanted 'left' or 'right'")
    if side == "left" and right:
        raise ArgumentError("searchsorted: side='left' and right=True say different things; give one of them")
    rows: Any = sorted_sequence
    values: Any = input
    if not hasattr(values, "dtype"):  # compared as it is, not brought to the dtype of the rows
        values = np.full_like(rows.data, values, shape=(), dtype=np.asarray(values).dtype)
    shape = values.shape
    if rows.data.ndim == 0:
        raise ShapeError("searchsorted: sorted_sequence has no dims; wanted the shape (n,) or (..., n)")
    if rows.data.ndim > 1 and rows.data.shape[:-1] != shape[:-1]:
        raise ShapeError(
            f"searchsorted: rows of shape {rows.data.shape} for values of shape {shape}; all dims but the "
            "last must be the same, or the rows one of shape (n,)"
        )
    if sorter is not None:
        if sorter.data.shape != rows.data.shape:
            raise ShapeError(
                f"searchsorted: sorter has the shape {sorter.data.shape}; wanted that of the rows, "
                f"{rows.data.shape}"
            )
        rows = gather.Gather.apply(rows, sorter, dim=rows.data.ndim - 1)
    result: Tensor = search.SearchSorted.apply(rows, values, right=right or side == "right")
    return result.astype(np.int32) if out_int32 else result


def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the index of the bucket into which each value falls.

    Parameters
    ----------
    input : Tensor or number
        Any shape.
    boundaries : Tensor, shape (n,)
        In rising order.
    out_int32 : bool
        Indices as int32 instead of int64.
    right : bool
        A bucket holds its left boundary, instead of its right one.

    Returns
    -------
    Tensor of int64
        From 0 to n, in the shape of `input`.

    Examples
    --------
    >>> import shardwise as sw
    >>> bucketize(sw.tensor([0.5, 1.0, 7.0]), sw.tensor([1.0, 2.0])).tolist()
    [0, 0, 2]
    """
    if boundaries.data.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must have the shape (n,), got {boundaries.data.shape}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return for each element whether it is among `test_elements`.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        At least one a Tensor.
    assume_unique : bool
        Neither holds an element twice, which may save time.
    invert : bool
        Whether each is *not* among them.

    Returns
    -------
    Tensor of bool
        Shape of `elements`.

    Examples
    --------
    >>> import shardwise as sw
    >>> isin(sw.tensor([1, 2, 3]), sw.tensor([3, 1])).tolist()
    [True, False, True]
    """
    first: Any = elements
    result: Tensor = search.IsIn.apply(first, test_elements, assume_unique=assume_unique, invert=invert)
    return result
