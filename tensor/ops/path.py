"""The order in which to contract several arrays, two at a time, at the least cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["contraction_path"]

_ALL_ORDERS = 6  # operands; the number of ways to split them grows as 3**n

Letters = frozenset[str]


def contraction_path(
    terms: Sequence[str], output: str, sizes: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """Return which two operands to contract, one pair after the other.

    Parameters
    ----------
    terms : sequence of str
        Per operand, its letters.
    output : str
        The letters that the result keeps.
    sizes : mapping of str to int

    Returns
    -------
    tuple of (int, int)
        Places in the list of operands, the smaller one first; both leave it, and their result goes to its
        end. The order with the fewest multiplications for up to six operands; for more, the next pair is
        the one whose result is smallest beside what it takes away.

    Examples
    --------
    >>> contraction_path(["ij", "jk", "k"], "i", {"i": 50, "j": 50, "k": 50})
    ((1, 2), (0, 1))
    """
    sets = [frozenset(term) for term in terms]
    if len(sets) < 3:
        return ((0, 1),) * (len(sets) - 1)
    search = _cheapest if len(sets) <= _ALL_ORDERS else _greedy
    return tuple(search(sets, frozenset(output), sizes))


def _volume(letters: Letters, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[letter] for letter in letters)


def _cheapest(terms: list[Letters], output: Letters, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """Go through all subsets, small ones first, each by its best split in two."""
    n = len(terms)
    everyone = (1 << n) - 1
    kept: dict[int, Letters] = {}  # subset (as bits) -> the letters of its result
    cost: dict[int, int] = {}
    split: dict[int, int] = {}
    for size in range(1, n + 1):
        for members in itertools.combinations(range(n), size):
            subset = sum(1 << i for i in members)
            inside = frozenset[str]().union(*(terms[i] for i in members))
            outside = output.union(*(terms[i] for i in range(n) if i not in members))
            kept[subset] = inside & outside if size > 1 else inside
            if size == 1:
                cost[subset] = 0
                continue
            for part in _parts(subset):
                rest = subset ^ part
                total = cost[part] + cost[rest] + _volume(kept[part] | kept[rest], sizes)
                if subset not in cost or total < cost[subset]:
                    cost[subset], split[subset] = total, part

    path: list[tuple[int, int]] = []
    places = [1 << i for i in range(n)]

    def visit(subset: int) -> None:
        if subset not in split:
            return
        part, rest = split[subset], subset ^ split[subset]
        visit(part)
        visit(rest)
        path.append(_take(places, part, rest))
        places.append(subset)

    visit(everyone)
    return path


def _parts(subset: int) -> Iterator[int]:
    """Go through the ways to split a set of bits in two, each once."""
    part = (subset - 1) & subset
    while part:
        if part > subset ^ part:
            yield part
        part = (part - 1) & subset


def _take(places: list[int], one: int, other: int) -> tuple[int, int]:
    """Remove two entries, and return where they were."""
    first, second = sorted((places.index(one), places.index(other)))
    del places[second], places[first]
    return first, second


def _greedy(terms: list[Letters], output: Letters, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    terms = list(terms)
    path = []
    while len(terms) > 1:
        best: tuple[int, int] | None = None
        least: tuple[int, int] | None = None
        for i, j in itertools.combinations(range(len(terms)), 2):
            needed = output.union(*(terms[k] for k in range(len(terms)) if k not in (i, j)))
            union = terms[i] | terms[j]
            growth = _volume(union & needed, sizes) - _volume(terms[i], sizes) - _volume(terms[j], sizes)
            if least is None or (growth, _volume(union, sizes)) < least:
                least, best, result = (growth, _volume(union, sizes)), (i, j), union & needed
        assert best is not None
        path.append(best)
        del terms[best[1]], terms[best[0]]
        terms.append(result)
    return path
