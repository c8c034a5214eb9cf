"""Whether what a rank prints ends up on a terminal, and how wide that is.

A rank under ``shardwise run`` prints into a pipe, so that ``isatty`` says no although somebody is watching.
The launcher passes on what it knows in the environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

__all__ = ["TERMINAL_VARIABLE", "on_terminal", "terminal_width"]

TERMINAL_VARIABLE = "SHARDWISE_TERMINAL"
"""Set by the launcher: which of its own streams are terminals, such as ``stdout,stderr``."""

_NAMES = {1: "stdout", 2: "stderr"}


def on_terminal(stream: TextIO | None = None) -> bool:
    """Say whether what this rank writes to `stream` is shown on a terminal, perhaps through the launcher.

    Parameters
    ----------
    stream : text file, optional
        ``sys.stdout`` by default.

    Returns
    -------
    bool
        True on a terminal: a progress bar may redraw itself with a carriage return. The launcher redraws for
        rank 0; a bar of another rank is shown once it is complete.
    """
    stream = sys.stdout if stream is None else stream
    try:
        if stream.isatty():
            return True
        number = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return False  # replaced by an object in memory (a notebook, a test), or closed
    return _NAMES.get(number, "") in os.environ.get(TERMINAL_VARIABLE, "").split(",") and number in _NAMES


def terminal_width(default: int = 80) -> int:
    """Columns that a line of this rank may take without wrapping, the launcher's prefix allowed for.

    Parameters
    ----------
    default : int
        Where there is no terminal and nothing is known.

    Returns
    -------
    int
        At least 1.
    """
    # The launcher sets COLUMNS for its ranks; the shell's helper reads it before it asks the terminal.
    return max(1, shutil.get_terminal_size((default, 24)).columns)
