"""Telling values, or slices, apart."""

from __future__ import annotations

from typing import Any

from shardwise.tensor.dim import counted_dim
from shardwise.tensor.ops import search, take, view

__all__ = ["distinct"]


def distinct(
    op: str,
    x: Any,
    dim: int | None,
    *,
    consecutive: bool = False,
    equal_nan: bool = False,
    first: bool = False,
    inverse: bool = False,
    counts: bool = False,
) -> Any:
    """Return what differs in `x`, and what else is asked for, as a tensor or a tuple.

    Parameters
    ----------
    op : str
        For messages.
    x : Tensor
    dim : int or None
        Whose slices are told apart; all elements if None.
    consecutive : bool
        One of each run, in place, instead of all in order.
    equal_nan : bool
        NaN equals NaN.
    first, inverse, counts : bool
        Where each appears first; which each element is; how often each occurs.
    """
    shape = x.data.shape
    at = 0 if dim is None else counted_dim(op, dim, len(shape))
    rows = view.Reshape.apply(x, shape=(x.data.size,)) if dim is None or not shape else x
    where, which, how_often = search.Distinct.apply(
        rows.detach(), dim=at, consecutive=consecutive, equal_nan=equal_nan
    )
    results = [take.IndexSelect.apply(rows, where, dim=at)]
    if first:
        results.append(where)
    if inverse:
        results.append(view.Reshape.apply(which, shape=shape) if dim is None else which)
    if counts:
        results.append(how_often)
    return results[0] if len(results) == 1 else tuple(results)
