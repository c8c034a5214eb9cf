"""Calls of every op, in float64, small enough for finite differences: what several tests go through."""

from __future__ import annotations

from cases import (
    activation,
    arithmetic,
    attention,
    choice,
    complex_number,
    conversion,
    convolution,
    distance,
    elementary,
    embedding,
    fft,
    in_place,
    joining,
    linalg,
    linear,
    loss,
    norm,
    ordering,
    pooling,
    position,
    rearrangement,
    recurrent,
    reduction,
    resampling,
    scattering,
    selection,
    special_function,
    trigonometry,
)
from cases.operand import Case, make

__all__ = ["CASES", "GROUPS", "make"]

_FILES = (
    position,
    recurrent,
    embedding,
    in_place,
    activation,
    arithmetic,
    attention,
    choice,
    complex_number,
    conversion,
    convolution,
    distance,
    elementary,
    fft,
    joining,
    linalg,
    linear,
    loss,
    norm,
    pooling,
    ordering,
    rearrangement,
    reduction,
    resampling,
    scattering,
    selection,
    special_function,
    trigonometry,
)

GROUPS: dict[str, dict[str, Case]] = {file.__name__.removeprefix("cases."): file.CASES for file in _FILES}
CASES: dict[str, Case] = {name: case for file in _FILES for name, case in file.CASES.items()}
assert len(CASES) == sum(len(file.CASES) for file in _FILES), "two cases have one name"
