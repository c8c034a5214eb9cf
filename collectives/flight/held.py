"""The stacks of a process of this host that cannot tell them itself, since something holds its interpreter.

`faulthandler` writes them from a signal handler, which needs no interpreter: into a file in memory, where
another rank of the same user reads them through /proc (Linux).
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Literal

__all__ = ["HeldStacks", "look_at"]

_NAME = "shardwise-stacks"
_SIGNAL = 61  # a real-time signal: nobody's by default
_PATIENCE = 0.3
_LOOK = 0.01


class HeldStacks:
    """Lets other ranks of this host read this process's stacks, until `close`."""

    def __init__(self) -> None:
        self._file = -1
        if sys.platform != "linux" or signal.getsignal(_SIGNAL) is not signal.SIG_DFL:
            return
        self._file = os.memfd_create(_NAME)
        faulthandler.register(_SIGNAL, file=self._file, all_threads=True)

    def close(self) -> None:
        """Stop it."""
        if self._file >= 0:
            faulthandler.unregister(_SIGNAL)
            os.close(self._file)
            self._file = -1


def look_at(pid: int) -> tuple[Literal["stopped", "held", "silent"], str]:
    """Find out, within a fraction of a second, what a silent process of this host does.

    Returns
    -------
    str
        "stopped" by a signal, "held" by compiled code that has written its stacks, or "silent".
    str
        The stacks, innermost frame first; empty if there are none.
    """
    if sys.platform != "linux":
        return "silent", ""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        if status.rpartition(")")[2].split()[0] in "Tt":
            return "stopped", ""
        return _dump(pid)
    except OSError:  # it is gone, or another user's
        return "silent", ""


def _dump(pid: int) -> tuple[Literal["held", "silent"], str]:
    folder = Path(f"/proc/{pid}/fd")
    for link in folder.iterdir():
        if os.readlink(link).startswith(f"/memfd:{_NAME}"):
            with open(link, "rb") as file:
                before = file.seek(0, os.SEEK_END)
                os.kill(pid, _SIGNAL)
                end, text = time.monotonic() + _PATIENCE, b""
                while time.monotonic() < end:
                    time.sleep(_LOOK)
                    file.seek(before)
                    found = file.read()
                    if found and found == text:
                        return "held", _shortened(found.decode(errors="replace"))
                    text = found
    return "silent", ""


def _shortened(dump: str) -> str:
    """Keep the thread that holds the interpreter, which faulthandler calls the current one."""
    blocks = re.split(r"\n(?=(?:Thread|Current thread) 0x)", dump.strip())
    current = [block for block in blocks if block.startswith("Current")] or blocks[-1:]
    lines = current[0].splitlines()[1:]
    return "".join(f"{line}\n" for line in lines)
