"""Commands as a user types them: ``shardwise run ...`` in a folder, and how they ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ended", "all_gone", "clean_environment", "execute", "without_warning"]

LONGEST_SECONDS = 150.0


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float

    def lines_of(self, rank: int) -> list[str]:
        """What a rank printed to stdout, without the prefix."""
        prefix = f"[r{rank}] "
        return [line.removeprefix(prefix) for line in self.out.splitlines() if line.startswith(prefix)]

    @property
    def said(self) -> str:
        """Stderr without the warning about ranks that share cores, which depends on the machine."""
        return without_warning(self.err)


def without_warning(err: str) -> str:
    """Leave out the warning about ranks that share cores."""
    return "".join(line for line in err.splitlines(keepends=True) if " ranks share " not in line)


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without what the test run itself has put there, and with `extra`."""
    dropped = {
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PYTEST_CURRENT_TEST",
        "COLUMNS",
        "PYTHONUNBUFFERED",
    }
    return {name: value for name, value in os.environ.items() if name not in dropped} | extra


def execute(command: Sequence[object], folder: Path, stdin: str = "", **environment: str) -> Ended:
    """Run ``python command...`` in a folder, with a time limit."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        cwd=folder,
        env=clean_environment(**environment),
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def all_gone(pids: Sequence[str], seconds: float = 20.0) -> bool:
    """Whether none of these processes is left, after a short while."""
    end = time.monotonic() + seconds
    while any(Path("/proc", pid).exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
