"""Where the threads of this process are, as its user would look at it."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import traceback
from types import FrameType

from shardwise.backend.source import is_inside

__all__ = ["stacks"]

_OWN = "shardwise-"  # threads whose names begin like this serve the package
_RUNNERS = ("<frozen runpy>", f"{os.sep}threading.py")  # they only run what is of interest


def stacks(thread: int | None = None) -> str:
    """Write where threads are in the user's code.

    Parameters
    ----------
    thread : int, optional
        The ident of the only one to tell of; by default all, the main one first.
    """
    frames = sys._current_frames()
    if thread is not None:
        return _stack(frames[thread]) if thread in frames else ""
    main = threading.main_thread().ident
    names = {each.ident: each.name for each in threading.enumerate()}
    written = [_stack(frames[main])] if main in frames else []
    written += [
        f'  in thread "{names[ident]}":\n{_stack(frame)}'
        for ident, frame in frames.items()
        if ident != main and ident in names and not names[ident].startswith(_OWN)
    ]
    return "".join(written)


def _stack(frame: FrameType) -> str:
    lines = []
    for each, number in reversed(list(traceback.walk_stack(frame))):
        name = each.f_code.co_filename
        if is_inside(name) or name.endswith(_RUNNERS):
            continue
        lines.append(f'  File "{name}", line {number}, in {each.f_code.co_name}\n')
        text = linecache.getline(name, number).strip()
        if text:
            lines.append(f"    {text}\n")
    return "".join(lines)
