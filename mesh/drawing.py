"""Pictures of a mesh in text: tables of ranks, marked with their hosts where there are several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from shardwise.collectives.rank_list import rank_numbers
from shardwise.mesh.grid import RankGrid

__all__ = ["draw_grid"]

_MOST = 16  # columns, rows of one axis, tables or hosts that are shown in full
_LONGEST = 60  # characters about the ranks of a host
_GAP = "…"

T = TypeVar("T")


def draw_grid(ranks: RankGrid, names: Sequence[str], hosts: Sequence[str]) -> str:
    """Draw a grid of ranks.

    Parameters
    ----------
    ranks : array of int64
        The last axis runs to the right, the two before it downwards; of the others each place has a table.
    names : sequence of str
        One per axis.
    hosts : sequence of str
        Host of each global rank; what follows a ``/`` is not shown.

    Returns
    -------
    str
        Lines without one at the end. Long axes are shown by their ends.

    Examples
    --------
    >>> print(draw_grid(np.arange(4).reshape(2, 2), ("dp", "tp"), ["a", "a", "b", "b"]))
    dp │ tp  0    1
    ───┼─────────────
     0 │     0 a  1 a
     1 │     2 b  3 b
    <BLANKLINE>
    a  a  ranks 0-1
    b  b  ranks 2-3
    """
    letters = _letters(ranks, hosts)
    flat = ranks.ravel().tolist()
    wide = len(str(max(flat)))
    marks = {rank: f" {letters[hosts[rank]]}" if letters else "" for rank in flat}
    cells = {rank: f"{rank:{wide}}{mark}" for rank, mark in marks.items()}
    outer = max(0, ranks.ndim - 3)
    blocks = []
    for place in _ends(list(np.ndindex(ranks.shape[:outer]))):
        if place is None:
            blocks.append(_GAP)
            continue
        title = ", ".join(f"{name}={at}" for name, at in zip(names, place, strict=False))
        table = _table(ranks[place], names[outer:], cells)
        blocks.append(f"{title}\n{table}" if title else table)
    if letters:
        blocks.append(_legend(ranks, hosts, letters))
    return "\n\n".join(blocks)


def _table(ranks: RankGrid, names: Sequence[str], cells: Mapping[int, str]) -> str:
    """Draw up to three axes as one table: the last one on top, the others on the left."""
    columns = _ends(range(ranks.shape[-1]))
    wide = len(str(max(cells)))
    left = [list(names[:-1])]
    right = [[(_GAP if at is None else str(at)).rjust(wide) for at in columns]]
    above: tuple[int, ...] = ()
    for place in _rows(ranks.shape[:-1]):
        if place is None:
            left.append([_GAP] * (ranks.ndim - 1))
            right.append([""] * len(columns))
            continue
        # An outer axis is told where it changes.
        same = next((i for i in range(len(above)) if above[i] != place[i]), len(above))
        left.append(["" if i < same else str(at) for i, at in enumerate(place)])
        right.append([_GAP.rjust(wide) if at is None else cells[int(ranks[*place, at])] for at in columns])
        above = place
    begin, end = _aligned(left, " ", str.rjust), _aligned(right, "  ", str.ljust)
    bar = " │ " if ranks.ndim > 1 else ""
    axis = [names[-1], *[" " * len(names[-1])] * (len(right) - 1)]
    lines = [f"{a}{bar}{b}  {c}" for a, b, c in zip(begin, axis, end, strict=True)]
    rule = "─" * max(map(len, lines))
    if bar:
        rule = f"{rule[: len(begin[0]) + 1]}┼{rule[len(begin[0]) + 2 :]}"
    return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:]))


def _aligned(rows: Sequence[Sequence[str]], gap: str, align: Callable[[str, int], str]) -> list[str]:
    """Write the rows of a table with each column at its width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join(align(cell, width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _rows(shape: Sequence[int]) -> list[tuple[int, ...] | None]:
    """Give the places of rows; None stands for those that are left out."""
    rows: list[tuple[int, ...] | None] = [()]
    for size in shape:
        rows = [
            None if row is None or at is None else (*row, at)
            for row in rows
            for at in (_ends(range(size)) if row is not None else (None,))
        ]
    return rows


def _ends(items: Sequence[T]) -> list[T | None]:
    """Give all, or the first and the last ones with None between."""
    if len(items) <= _MOST:
        return list(items)
    return [*items[: _MOST - 4], None, *items[-2:]]


def _letters(ranks: RankGrid, hosts: Sequence[str]) -> dict[str, str]:
    """Name the hosts of these ranks a, b, ..., z, aa, ...; none of them if there is only one."""
    found = list(dict.fromkeys(hosts[rank] for rank in sorted(ranks.ravel().tolist())))
    return {host: _letter(i) for i, host in enumerate(found)} if len(found) > 1 else {}


def _letter(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letter(more - 1) if more else "") + chr(ord("a") + last)


def _legend(ranks: RankGrid, hosts: Sequence[str], letters: Mapping[str, str]) -> str:
    members: dict[str, list[int]] = {host: [] for host in letters}
    for rank in sorted(ranks.ravel().tolist()):
        members[hosts[rank]].append(rank)
    rows = [
        [_GAP, "", ""] if host is None else [letters[host], host.partition("/")[0], _numbers(members[host])]
        for host in _ends(list(letters))
    ]
    return "\n".join(line.rstrip() for line in _aligned(rows, "  ", str.ljust))


def _numbers(ranks: Sequence[int]) -> str:
    numbers = f"rank{'' if len(ranks) == 1 else 's'} {rank_numbers(ranks)}"
    return numbers if len(numbers) <= _LONGEST else f"{numbers[: numbers.rindex(',', 0, _LONGEST) + 1]}{_GAP}"
