"""Where in the user's code are we: the first line outside the package."""

from __future__ import annotations

import os
import sys

__all__ = ["source_line"]

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
    frame = sys._getframe(depth)
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_INSIDE) or name.startswith(_OUTSIDE):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
