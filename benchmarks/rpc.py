"""Remote calls between two ranks of one host against torch's RPC (TensorPipe), in one run.

Both are started in the same two processes and take turns. The limit of small calls is a round trip over a
unix socket with nothing else; that of large arrays is a copy of them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from contest.options import parser, peer_present, positive, result, write
from table import Result

_LARGE = 16 << 20
_SECONDS = 1800.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


def run(task: dict[str, Any], peer: bool) -> dict[str, Any]:
    """Measure on two ranks, started as users start theirs.

    Raises
    ------
    subprocess.CalledProcessError
        If a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        task = {**task, "meeting": str(Path(folder, "torch")) if peer else ""}
        command = [sys.executable, "-c", _RUN, "run", "-n", "2", "--show-ranks", "0"]
        done = subprocess.run(
            [*command, "-m", "contest.calls", json.dumps(task)],
            cwd=Path(__file__).resolve().parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if "{" in line)
    measured: dict[str, Any] = json.loads(line[line.index("{") :])
    return measured


def lines(measured: dict[str, Any], copy: float) -> list[Result]:
    """Make the table."""
    found: list[Result] = []
    for row, took in measured["took"].items():
        many = 100 if "in flight" in row else 1
        ours = 1e6 * statistics.median(took["ours"]) / many
        theirs = 1e6 * statistics.median(took["torch"]) / many if took.get("torch") else None
        limit = copy if "MiB" in row else measured["socket"]
        found.append(result(row, "us", ours, theirs, 1e6 * limit))
    found.append(
        result("core used by a worker that waits", "%", 100 * measured["idle"], limit=3.0, more=True)
    )
    if measured["huge"]:
        found.append(
            result("memory of a huge array sent, at most", "arrays", measured["huge"], limit=2.2, more=True)
        )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=9, steps=200)
    made.add_argument(
        "--huge", type=positive, metavar="GIB", help="also send an array of so many GiB, and tell the memory"
    )
    options = made.parse_args(argv)
    task = {
        "large": 1 << 20 if options.tiny else _LARGE,
        "rounds": 1 if options.tiny else options.rounds,
        "steps": 10 if options.tiny else options.steps,
        "idle": 0.1 if options.tiny else 2.0,
        "huge": (options.huge or 0) << 30,
    }
    results = lines(run(task, peer_present(options)), _copying(task["large"]))
    for each in results:
        ratio = "" if each["ratio"] is None else f", {each['ratio']:.2f} of theirs"
        print(f"{each['name']}: {each['ours']:,.4g} {each['unit']}{ratio}", flush=True)
    write(options, results)
    return 0


def _copying(nbytes: int) -> float:
    """Give the seconds of a copy, into memory that was there."""
    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        target[:] = source
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
