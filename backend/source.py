"""Where in the user's code are we: the first line outside the package."""

from __future__ import annotations

import os
import sys
from functools import cache
from types import CodeType
from typing import TypeAlias

__all__ = ["Place", "is_inside", "source_line", "source_place", "spell_place"]

Place: TypeAlias = tuple[CodeType, int]
"""An instruction of code that runs: cheap to take, and `spell_place` finds its line if anybody asks."""

# Files of the package, whether reached through the links of src/ or at the top of the repository.
_INSIDE = tuple(
    {
        os.path.dirname(os.path.dirname(path)) + os.sep
        for path in (os.path.abspath(__file__), os.path.realpath(__file__))
    }
)
_OUTSIDE = tuple(
    root + folder + os.sep
    for root in _INSIDE
    for folder in ("tests", "examples", "benchmarks", "docs", ".venv")
)


def source_line(depth: int = 1) -> str:
    """Return ``"path:line"`` of the innermost caller outside the package.

    Parameters
    ----------
    depth : int
        Frames to skip at the least.
    """
    return spell_place(source_place(depth + 1))


def source_place(depth: int = 1) -> Place:
    """Return where the innermost caller outside the package is.

    Parameters
    ----------
    depth : int
        Frames to skip at the least.
    """
    frame = sys._getframe(depth)
    code = frame.f_code
    while is_inside(code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
        code = frame.f_code
    return code, frame.f_lasti


@cache
def is_inside(name: str) -> bool:
    """Say whether a file belongs to the package."""
    return name.startswith(_INSIDE) and not name.startswith(_OUTSIDE)


def spell_place(place: Place) -> str:
    """Write a place as ``"path:line"``."""
    code, at = place
    lines = (line for begin, end, line in code.co_lines() if begin <= at < end)
    return f"{code.co_filename}:{next(lines, None) or code.co_firstlineno}"
