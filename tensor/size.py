"""Sizes of dims as the caller writes them: ``f(2, 3)`` or ``f((2, 3))``, with -1 for what is left over."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias

from shardwise.backend.array import Shape
from shardwise.backend.errors import ArgumentError, ShapeError

__all__ = ["Sizes", "full_shape", "integers"]

Sizes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""One of the arguments of ``f(2, 3)``, or the only one of ``f((2, 3))``."""


def integers(values: Sequence[Sizes], named: Sizes | None = None) -> tuple[int, ...]:
    """Return what ``f(*values)`` was given as integers, be it ``f(2, 3)`` or ``f((2, 3))``.

    Parameters
    ----------
    values : sequence of int, or one sequence of int
    named : int or sequence of int, optional
        What was given by keyword instead: ``f(shape=(2, 3))``.

    Examples
    --------
    >>> integers((2, 3)), integers(([2, 3],)), integers((), (2, 3))
    ((2, 3), (2, 3), (2, 3))
    """
    if named is not None:
        if values:
            raise ArgumentError(f"got {values} and, by keyword, {named}; give one of them")
        values = (named,)
    if len(values) == 1 and not isinstance(values[0], SupportsIndex):
        values = values[0]
    return tuple([operator.index(value) for value in values])  # type: ignore[arg-type]  # raises TypeError


def full_shape(op: str, shape: Shape, wanted: Shape) -> Shape:
    """Return `wanted` with its -1, if it has one, replaced by the size that is left over.

    Parameters
    ----------
    op : str
        For the message.
    shape : tuple of int
        Whose elements are to fill `wanted`.
    wanted : tuple of int

    Raises
    ------
    ShapeError
        The sizes do not multiply to the same number.
    """
    size = math.prod(shape)
    if math.prod(wanted) == size and min(wanted, default=0) >= 0:
        return wanted
    known = math.prod(n for n in wanted if n != -1)
    free = wanted.count(-1)
    sensible = min(wanted, default=0) >= -1
    if sensible and free == 1 and known and size % known == 0:
        return tuple(size // known if n == -1 else n for n in wanted)
    raise ShapeError(
        f"cannot {op} {shape} ({size} elements) to {wanted}; "
        "the sizes must multiply to the same number, with at most one -1"
    )
