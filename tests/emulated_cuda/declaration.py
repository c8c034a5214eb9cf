"""What a kernel's declaration says: the types of its parameters, and how large its blocks may be."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Declaration", "Parameter", "declarations"]

_KERNEL = re.compile(r"^KERNEL\((\d+)\)\s*(\w+)\(([^)]*)\)", re.MULTILINE)
_PARAMETER = re.compile(r"(?:const )?(\w+)(\*)? (?:__restrict__ )?(\w+)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """``const real* __restrict__ x`` is ``Parameter("x", "real", True)``."""

    name: str
    kind: str
    pointer: bool


@dataclass(frozen=True, slots=True)
class Declaration:
    """A kernel by its name, the most threads of a block, and its parameters."""

    name: str
    threads: int
    parameters: tuple[Parameter, ...]


def declarations(source: str) -> dict[str, Declaration]:
    """Every kernel that a source declares, by name."""
    found = {}
    for threads, name, listed in _KERNEL.findall(source):
        parameters = []
        for one in listed.split(","):
            match = _PARAMETER.fullmatch(" ".join(one.split()))
            assert match is not None, f"{name}: cannot read the parameter {one!r}"
            kind, pointer, label = match.groups()
            parameters.append(Parameter(label, kind, pointer is not None))
        found[name] = Declaration(name, int(threads), tuple(parameters))
    assert source.count("\nKERNEL(") == len(found)
    return found
