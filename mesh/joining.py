"""Joining parts of one grid of ranks that run along different directions of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwise.backend.errors import LayoutError
from shardwise.mesh.argument import Names
from shardwise.mesh.grid import RankGrid, keep_axes

__all__ = ["Digit", "find_digits", "join_grids", "joined_names"]

Digit = tuple[int, int]
"""Size and stride: what one digit of a mixed-radix number counts to, and what one step of it adds."""


def joined_names(each: Sequence[Names], what: str) -> Names:
    """Give the names of all axes, in order, or None if none of the parts has names.

    Raises
    ------
    LayoutError
        If some parts have names and some have none, or a name is used twice; it begins with `what`.
    """
    if len({names is None for names in each}) > 1:
        raise LayoutError(f"{what}: some have names and some have none; name all of them or none")
    joined = tuple(name for names in each for name in names or ())
    if len(set(joined)) < len(joined):
        raise LayoutError(f"{what}: an axis name is used twice; flatten(name) gives an axis another one")
    return joined or None


def join_grids(root: RankGrid, parts: Sequence[RankGrid], what: str) -> RankGrid:
    """Make one grid of parts that have one rank in common and run along different directions of `root`.

    Parameters
    ----------
    root : array of int64
        Holds the ranks of all parts.
    parts : sequence of arrays of int64
    what : str
        Begins messages: what is joined.

    Returns
    -------
    array of int64
        Its axes are those of the parts, in their order; it fixes nothing but what all parts fix.

    Raises
    ------
    LayoutError
        If the parts have no rank in common, or overlap.

    Notes
    -----
    A place in the root, counted row by row, is a mixed-radix number. Slicing, merging and dividing axes leave
    every axis a group of its digits; axes are orthogonal if no digit is in two groups, and then the place
    of an element of the joined grid is the sum of how far each part goes from the common rank.

    Examples
    --------
    >>> root = np.arange(8).reshape(2, 2, 2)
    >>> join_grids(root, [root[1, :, 0], root[:, 0, 0]], "cannot join").tolist()
    [[0, 4], [2, 6]]
    """
    flat = root.ravel()
    order = np.argsort(flat)
    places = [order[np.searchsorted(flat, part, sorter=order)] for part in parts]
    common = set.intersection(*(set(each.ravel().tolist()) for each in places))
    if not common:
        raise LayoutError(
            f"{what}: they have no rank in common; take all of them on this rank, as mesh['tp']"
        )
    digits = [find_digits(each) for each in places]
    told = [digit for each in digits if each is not None for digit in each]
    here = min(common)
    joined = np.array(here)
    for each in places:
        joined = np.add.outer(joined, each - here)
    fits = joined.min() >= 0 and joined.max() < flat.size
    if None in digits or not _are_independent(told, flat.size) or not fits:
        raise LayoutError(
            f"{what}: they overlap; each must run along axes of the mesh {root.shape} that the others fix"
        )
    ranks: RankGrid = flat[joined]
    return ranks


def find_digits(places: RankGrid) -> list[Digit] | None:
    """Write each axis of a grid of places as digits, the innermost first; None if that cannot be.

    Examples
    --------
    >>> find_digits(np.array([0, 4, 1, 5])), find_digits(np.array([0, 1, 3]))
    ([(2, 4), (2, 1)], None)
    """
    lines = [keep_axes(places, [axis], (0,) * places.ndim) for axis in range(places.ndim)]
    total = np.array(lines[0][0])
    for line in lines:
        total = np.add.outer(total, line - line[0])
    if (total != places).any():
        return None
    digits: list[Digit] = []
    for line in lines:
        found = _line_digits(line)
        if found is None:
            return None
        digits += found
    return digits


def _line_digits(line: RankGrid) -> list[Digit] | None:
    digits: list[Digit] = []
    while len(line) > 1:
        stride = int(line[1] - line[0])
        steady = line - line[0] == stride * np.arange(len(line))
        run = len(line) if steady.all() else int(steady.argmin())
        if len(line) % run:
            return None
        rows = line.reshape(-1, run)
        if (rows - rows[:, :1] != stride * np.arange(run)).any():
            return None
        digits.append((run, stride))
        line = rows[:, 0]
    return digits


def _are_independent(digits: Sequence[Digit], size: int) -> bool:
    """Say whether these are different digits of one way to count to `size`."""
    least = 1  # the stride that the next digit has, or a multiple of it
    for count, stride in sorted(((n, abs(step)) for n, step in digits), key=lambda digit: digit[1]):
        if stride % least:
            return False
        least = stride * count
    return size % least == 0
