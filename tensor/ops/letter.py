"""Letters for the dims of index signatures that depend on the shapes of a call."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping

__all__ = ["LETTERS", "by_size", "term"]

LETTERS = string.ascii_letters


def term(ndim: int, whole: Mapping[int, str] | None = None) -> str:
    """Return one term: dim ``d`` is the letter number ``d``, but for those in `whole`.

    Parameters
    ----------
    ndim : int
    whole : mapping of int to str, optional
        From dims that must be whole to their letters.

    Examples
    --------
    >>> term(3, {1: "x"})
    'a[x]c'
    """
    return "".join(f"[{whole[d]}]" if whole and d in whole else LETTERS[d] for d in range(ndim))


def by_size(ndim: int, sizes: Iterable[int]) -> list[str]:
    """Return a letter per size, equal for equal sizes, none of them the letter of a dim below `ndim`.

    A signature has 52 letters; sizes beyond that share the last one.
    """
    spare = LETTERS[ndim:]
    letters: dict[int, str] = {}
    return [letters.setdefault(size, spare[min(len(letters), len(spare) - 1)]) for size in sizes]
