"""Steps through pipelines beside torch's on gloo, schedule by schedule, and beside an ideal without waiting.

Ours and torch's have the same blocks and take turns in the same processes, on a core each where there are
enough. The limit is what one rank takes for all blocks while the others do the same, over the ranks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contest.options import parser, peer_present, positive, result, write
from contest.pipelining import NAMES
from contest.rounds import Rounds, ratio
from contest.task import Task
from table import Result

FULL = Task(layers=8, dim=256, heads=8, context=128, batch=16)
TINY = Task(layers=8, dim=16, heads=2, context=8, batch=8)
_SECONDS = 1200.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


def run(ranks: int, task: Task, names: Sequence[str], rounds: int, steps: int, gloo: bool) -> dict[str, Any]:
    """Measure on so many ranks, started as users start theirs.

    Raises
    ------
    subprocess.CalledProcessError
        If a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder, "gloo")) if gloo else ""
        plan = json.dumps({
            "task": task.to_json(), "names": list(names), "rounds": rounds, "steps": steps, "gloo": meeting,
        })  # fmt: skip
        command = [sys.executable, "-c", _RUN, "run", "-n", str(ranks), "--show-ranks", "0"]
        done = subprocess.run(
            [*command, "-m", "contest.pipelining", plan],
            cwd=Path(__file__).resolve().parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if "{" in line)
    measured: dict[str, Any] = json.loads(line[line.index("{") :])
    return measured


def lines(ranks: int, measured: dict[str, Any]) -> list[Result]:
    """Make the table: a line for each schedule, and one for how well the simulator tells its time."""
    took = {name: Rounds(values) for name, values in measured["took"].items()}
    ideal = took["ours: alone"].median / ranks
    found: list[Result] = []
    for name in measured["modelled"]:
        ours, theirs = took[f"ours: {name}"], took.get(f"torch: {name}")
        print(f"{name}: ours {ours.show('ms')}, {ours.median / ideal:.3f} of the ideal", end="")
        if theirs is not None:
            their_ideal = took["torch: alone"].median / ranks
            print(f"; torch {theirs.show('ms')}, {theirs.median / their_ideal:.3f} of its ideal", end="")
            print(f"; torch over ours {ratio(theirs, ours)}", end="")
        modelled = measured["modelled"][name]
        print(f"; measured over simulated {modelled:.3f}", flush=True)
        peer = None if theirs is None else theirs.median
        found.append(result(f"pipeline {name}, {ranks} ranks", "ms", ours.median, peer, ideal))
    what = f"pipeline, {ranks} ranks: step over its simulation, the worst"
    return [*found, result(what, "x", max(measured["modelled"].values()))]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=5, steps=3)
    made.add_argument("--ranks", type=positive, default=2, help="world size, 2 or 4 (default 2)")
    made.add_argument(
        "--schedules", nargs="*", default=NAMES, choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}"
    )
    options = made.parse_args(argv)
    if options.ranks not in (2, 4):
        made.error("argument --ranks: the eight blocks are cut for 2 or 4 ranks")
    task = TINY if options.tiny else FULL
    peer = peer_present(options)
    measured = run(options.ranks, task, options.schedules, options.rounds, options.steps, peer)
    write(options, lines(options.ranks, measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
