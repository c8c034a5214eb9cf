"""Ranks as messages name them: 0-2,5."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["rank_list", "rank_numbers"]


def rank_list(ranks: Iterable[int]) -> str:
    """Write ranks briefly, rising.

    Examples
    --------
    >>> rank_list([3]), rank_list([2, 0, 1, 5])
    ('rank 3', 'ranks 0-2,5')
    """
    rising = sorted(ranks)
    return f"rank{'' if len(rising) == 1 else 's'} {rank_numbers(rising)}"


def rank_numbers(ranks: Iterable[int]) -> str:
    """Write the numbers of ranks briefly, in their order.

    Examples
    --------
    >>> rank_numbers([0, 1, 2, 5]), rank_numbers([2, 0, 1])
    ('0-2,5', '2,0-1')
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
