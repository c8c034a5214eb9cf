"""One process of one side that trains a few steps and says how much memory they needed at most.

That is the highest that the process held in memory (VmHWM) less what it held before the first step (VmRSS):
the model is there before, its gradients, the optimizer's state and all that a step makes are not.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from contest.task import Task
from contest.worker import enter

__all__ = ["main"]

STEPS = 4
_TRIM_THRESHOLD, _MMAP_THRESHOLD = (-1, 2**31 - 1), (-3, 2**30)  # as backend/allocator.py sets them


def held(name: str) -> float:
    """Return a line of ``/proc/self/status`` in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status does not tell {name}")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the MiB, and nothing else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=["ours", "torch"])
    parser.add_argument("malloc", choices=["kept", "default"])
    parser.add_argument("--task", type=Task.from_json, required=True)
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        if options.malloc == "kept":
            libc = ctypes.CDLL(None)
            for parameter, value in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
                libc.mallopt(parameter, value)
        elif options.side == "ours":  # whose backward would ask for it
            stack.enter_context(mock.patch("shardwise.tensor.engine.keep_pages"))
        trainee = enter(options.side, options.task, 0, 1, Path("meeting"))
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest begins here
        before = held("VmRSS")
        for _ in range(STEPS):
            trainee.step()
    print(held("VmHWM") - before)


if __name__ == "__main__":
    main()
