"""Einsum's equations, read against the shapes of the operands: a plan of what is done to each, in order.

Nothing here touches an array. A letter stands for one dim; the dims of an ellipsis get letters that the
equation does not use.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shardwise.backend.errors import ArgumentError, ShapeError
from shardwise.tensor.ops.path import contraction_path

__all__ = ["Plan", "equation_and_operands", "plan_of"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What einsum does, step by step.

    Attributes
    ----------
    terms : tuple of str
        Per operand, a letter for each dim; a letter that repeats asks for the diagonal.
    kept : tuple of str
        Per operand, the letters that are left once diagonals are taken, dims of size one that broadcast
        are dropped, and letters that nobody else has are summed over.
    output : str
        The letters of the result.
    sizes : mapping of str to int
        Of each letter.
    path : tuple of (int, int)
        Which two operands to contract next; the result goes to the end of the list.
    """

    terms: tuple[str, ...]
    kept: tuple[str, ...]
    output: str
    sizes: Mapping[str, int]
    path: tuple[tuple[int, int], ...]


@lru_cache(maxsize=1024)
def plan_of(equation: str, shapes: tuple[Shape, ...]) -> Plan:
    """Read an equation.

    Parameters
    ----------
    equation : str
        ``"ij,jk->ik"``; blanks are ignored. Without ``->`` the result has the letters that occur once, in
        alphabetical order, behind the dims of the ellipsis.
    shapes : tuple of tuple of int
        Of the operands. A dim of size one broadcasts.

    Raises
    ------
    ShapeError
        If the equation cannot be read, or does not fit the shapes: names letter, sizes and operand.
    """
    text = "".join(equation.split())
    left, arrow, right = text.partition("->")
    written = left.split(",")
    _check_letters(equation, [*written, right])
    if len(written) != len(shapes):
        raise _error(
            equation, f"it names {_count(len(written), 'operand')}, and got {len(shapes)} of shapes {shapes}"
        )
    terms, batch = _spelled(equation, written, shapes)
    sizes = _sizes(equation, terms, shapes)
    if arrow:
        output = right.replace("...", batch)
    else:
        counts = Counter("".join(written).replace("...", ""))
        output = batch + "".join(sorted(letter for letter, n in counts.items() if n == 1))
    for letter, n in Counter(output).items():
        if letter not in sizes:
            raise _error(equation, f"no operand has the letter {letter!r} of the result")
        if n > 1:
            raise _error(equation, f"the letter {letter!r} occurs {n} times in the result; once is allowed")
    kept = _kept(terms, output, sizes, shapes)
    return Plan(terms, kept, output, sizes, contraction_path(kept, output, sizes))


def equation_and_operands(parts: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Read what einsum was called with, in any of its three forms.

    Parameters
    ----------
    parts : tuple
        ``(equation, a, b)``, ``(equation, [a, b])``, or ``(a, [0, 1], b, [1, 2], [0, 2])``, where numbers or
        Ellipsis stand for letters and the list at the end is the result's.

    Raises
    ------
    ArgumentError
        If they are none of these.
    """
    if parts and isinstance(parts[0], str):
        if len(parts) == 2 and isinstance(parts[1], (list, tuple)):
            return parts[0], tuple(parts[1])
        return parts[0], parts[1:]
    count = len(parts) // 2
    terms = []
    for labels in [*parts[1::2], *parts[2 * count :]]:
        if not isinstance(labels, (list, tuple)):
            raise ArgumentError(
                "einsum: wanted an equation first, or after each operand a list of numbers for its dims, "
                f"got {type(labels).__name__}"
            )
        terms.append("".join([_letter(label) for label in labels]))
    inputs = ",".join(terms[:count])
    return (f"{inputs}->{terms[-1]}" if len(parts) % 2 else inputs), parts[0 : 2 * count : 2]


def _letter(label: object) -> str:
    if label is Ellipsis:
        return "..."
    letters = string.ascii_uppercase + string.ascii_lowercase
    if isinstance(label, int) and 0 <= label < len(letters):
        return letters[label]
    raise ArgumentError(
        f"einsum: wanted numbers from 0 to {len(letters) - 1} or Ellipsis for dims, got {label!r}"
    )


def _check_letters(equation: str, terms: list[str]) -> None:
    for term in terms:
        rest = term.replace("...", "", 1)
        if "..." in rest:
            raise _error(equation, f"the term {term!r} has several ellipses; one is allowed")
        for sign in rest:
            if sign not in string.ascii_letters:
                raise _error(
                    equation,
                    f"cannot read {sign!r} in the term {term!r}; wanted letters, ',', '->' and '...'",
                )


def _spelled(equation: str, terms: list[str], shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], str]:
    """Put letters in the place of ellipses; also return the letters of the longest of them."""
    extra = []
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        named = len(term.replace("...", ""))
        if named > len(shape) or (named < len(shape) and "..." not in term):
            raise _error(
                equation,
                f"the term {term!r} names {_count(named, 'dim')}, and operand {i} has shape {shape}; "
                "write '...' for dims without a letter",
            )
        extra.append(len(shape) - named if "..." in term else 0)
    used = set("".join(terms))
    spare = "".join(letter for letter in string.ascii_letters if letter not in used)
    if max(extra, default=0) > len(spare):
        raise _error(equation, f"{len(used) + max(extra)} dims are more than there are letters (52)")
    batch = spare[: max(extra, default=0)]
    # the ellipsis is aligned at its end, as in broadcasting
    return tuple(
        term.replace("...", batch[len(batch) - n :]) for term, n in zip(terms, extra, strict=True)
    ), batch


def _sizes(equation: str, terms: tuple[str, ...], shapes: tuple[Shape, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    owner: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for place, (letter, n) in enumerate(zip(term, shape, strict=True)):
            here = shape[term.index(letter)]
            if here != n:
                raise _error(
                    equation,
                    f"the letter {letter!r} repeats in operand {i} of shape {shape}, so its dims "
                    f"{term.index(letter)} and {place} must be equal, and are {here} and {n}",
                )
            known = sizes.get(letter, 1)
            if known != 1 and n not in (1, known):
                what = f"the letter {letter!r}" if letter in equation else "a dim of the ellipsis"
                raise _error(
                    equation,
                    f"{what} has size {known} in operand {owner[letter]} and size {n} in operand {i} "
                    f"(shapes {shapes[owner[letter]]} and {shape})",
                )
            if letter not in sizes or n != 1:
                sizes[letter], owner[letter] = n, i
    return sizes


def _kept(
    terms: tuple[str, ...], output: str, sizes: Mapping[str, int], shapes: tuple[Shape, ...]
) -> tuple[str, ...]:
    full = []
    for term, shape in zip(terms, shapes, strict=True):
        here = dict(zip(term, shape, strict=True))
        full.append("".join(letter for letter in here if here[letter] == sizes[letter]))
    counts = Counter("".join(full))
    return tuple(
        "".join(letter for letter in term if counts[letter] > 1 or letter in output) for term in full
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _error(equation: str, why: str) -> ShapeError:
    return ShapeError(f"einsum {equation!r}: {why}")
