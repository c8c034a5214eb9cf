"""Calls of every op, in float64, small enough for finite differences: what several tests go through."""

from __future__ import annotations

from cases import (
    activation,
    arithmetic,
    attention,
    convolution,
    elementary,
    embedding,
    linear,
    loss,
    norm,
    ordering,
    rearrangement,
    reduction,
    selection,
)
from cases.operand import Case, make

__all__ = ["CASES", "make"]

_FILES = (
    embedding,
    activation,
    arithmetic,
    attention,
    convolution,
    elementary,
    linear,
    loss,
    norm,
    ordering,
    rearrangement,
    reduction,
    selection,
)

CASES: dict[str, Case] = {name: case for file in _FILES for name, case in file.CASES.items()}
assert len(CASES) == sum(len(file.CASES) for file in _FILES), "two cases have one name"
