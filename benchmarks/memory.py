"""Peak memory of a training step of a small GPT, beside torch: fresh processes, the same settings of malloc.

Twice: with malloc as it comes, and told to keep freed pages, as Shardwise does at the first backward. The
figure is what a process held at most while it trained four steps, less what it held before the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contest.options import parser, peer_present, result, write
from contest.rounds import Rounds, ratio
from contest.task import FULL, TINY, Task
from table import Result

from shardwise.launch.cores import THREAD_VARIABLES

ALLOWED = 1.1  # times torch's
SETTINGS = {"default": "malloc as it comes", "kept": "freed pages kept"}


def peak(side: str, malloc: str, task: Task) -> float:
    """Train in a fresh process, and return the MiB that it needed."""
    places = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    environ = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    command = [sys.executable, "-m", "contest.peak", side, malloc, "--task", task.to_json()]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return float(done.stdout)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    options = parser(__doc__.splitlines()[0], rounds=3, steps=1).parse_args(argv)
    if not Path("/proc/self/clear_refs").exists():
        print("memory is measured on Linux only, by /proc")
        write(options, [])
        return 0
    task = TINY if options.tiny else FULL
    sides = ("ours", "torch") if peer_present(options) else ("ours",)
    peak("ours", "default", task)  # compiles what it needs, once
    took: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(options.rounds):
        for malloc in SETTINGS:
            for side in sides:
                took.setdefault((malloc, side), []).append(
                    [peak(side, malloc, task) for _ in range(options.steps)]
                )
    results: list[Result] = []
    for malloc, words in SETTINGS.items():
        rounds = {side: Rounds(took[malloc, side]) for side in sides}
        for side, one in rounds.items():
            print(f"{words}, {side}: {one.show('MiB')}")
        if "torch" in rounds:
            over = ratio(rounds["ours"], rounds["torch"])
            print(f"{words}: ours over torch {over}; {ALLOWED} is allowed")
        peer = rounds["torch"].median if "torch" in rounds else None
        results.append(result(f"GPT step, peak memory, {words}", "MiB", rounds["ours"].median, peer))
    write(options, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
