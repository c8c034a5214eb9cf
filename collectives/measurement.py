"""`tally`: a number for each of many arrays, of the whole array where this rank holds only a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from shardwise.collectives.context import get_group
from shardwise.collectives.form.symmetric import all_reduce

__all__ = ["tally"]


def tally(
    arrays: Sequence[Any], measure: Callable[[Any], float], op: Literal["sum", "max"] = "sum"
) -> list[float]:
    """Measure arrays, and put the numbers of parts together.

    Parameters
    ----------
    arrays : sequence of array
        One that has a method ``counted()`` lies in parts: this gives the part to be measured here, in which
        the ranks together have each element once, and the global ranks, or None if it is all.
    measure : callable
        The number of a part, which may be empty.
    op : "sum" or "max"
        What the numbers of the parts give together; NaN stays NaN.

    Returns
    -------
    list of float
        In the order of the arrays, the same on all ranks that hold parts.

    Notes
    -----
    One all-reduce of a few bytes per array, for all arrays over the same ranks; nothing if none is in parts.

    Examples
    --------
    >>> tally([np.ones(3), np.full(2, 2.0)], lambda array: float(np.sum(array)))
    [3.0, 4.0]
    """
    found: list[float] = []
    shared: dict[tuple[int, ...], list[int]] = {}
    for i, array in enumerate(arrays):
        part, ranks = array.counted() if hasattr(array, "counted") else (array, None)
        found.append(measure(part))
        if ranks is not None:
            shared.setdefault(ranks, []).append(i)
    for ranks in sorted(shared, key=lambda ranks: (len(ranks), ranks)):  # the same order on all of them
        group = get_group(ranks)
        if group.rank is None:
            continue
        places = shared[ranks]
        together: Any = all_reduce(np.array([found[i] for i in places], np.float64), op, group)
        for i, number in zip(places, together.tolist(), strict=True):
            found[i] = number
    return found
