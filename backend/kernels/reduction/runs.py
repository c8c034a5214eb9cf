"""Reduce an array over dims: run by run of neighbours in memory, each as the middle one of three dims."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shardwise.backend.array import Array

__all__ = ["Step", "over_runs"]

Step = Callable[[Array], Array]
"""Takes a contiguous array of three dims, and reduces the middle one; the other two are left."""


def over_runs(x: Array, dims: tuple[int, ...], first: Step, rest: Step) -> Array:
    """Reduce `x` over `dims`, with as few passes as the order of the dims in memory allows.

    Parameters
    ----------
    x : array
        Copied, if its elements have gaps between them.
    dims : tuple of int
        Counted from the front, each once.
    first, rest : callable
        What reduces the run of dims that lies innermost, and what reduces its results over the others.

    Returns
    -------
    array, without these dims
    """
    order = sorted(range(x.ndim), key=lambda dim: -abs(x.strides[dim]))
    moved = x.transpose(order)
    if not (moved.flags.c_contiguous and moved.flags.aligned):
        moved, order = np.array(x, order="C"), list(range(x.ndim))
    if not dims:
        order.append(x.ndim)  # a dim of one element, over which nothing is reduced
        moved, dims = moved.reshape(*moved.shape, 1), (x.ndim,)
    sizes, gone = list(moved.shape), [dim in dims for dim in order]
    step = first
    while True in gone:
        stop = len(gone) - gone[::-1].index(True)
        start = stop
        while start and gone[start - 1]:
            start -= 1
        outer, count, inner = (math.prod(part) for part in (sizes[:start], sizes[start:stop], sizes[stop:]))
        moved = step(moved.reshape(outer, count, inner))
        del sizes[start:stop], gone[start:stop]
        step = rest
    result = moved.reshape(sizes)
    kept = [dim for dim in order if dim not in dims]
    return result if kept == sorted(kept) else result.transpose([kept.index(dim) for dim in sorted(kept)])
