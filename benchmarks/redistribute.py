"""Changes of layout against torch's DTensor over gloo, and a copy of the whole tensor by all ranks at once.

Ours and torch take turns in the same processes, on a core each where there are enough.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contest.options import parser, peer_present, positive, result, write
from table import Result

SHAPES = ((16, 16), (4096, 1024))  # float32: 1 KiB and 16 MiB
_SECONDS = 1800.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


def run(ranks: int, shapes: Sequence[tuple[int, int]], rounds: int, gloo: bool) -> dict[str, Any]:
    """Measure on so many ranks, started as users start theirs.

    Raises
    ------
    subprocess.CalledProcessError
        If a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder, "gloo")) if gloo else ""
        task = json.dumps({"shapes": shapes, "rounds": rounds, "gloo": meeting})
        command = [sys.executable, "-c", _RUN, "run", "-n", str(ranks), "--show-ranks", "0"]
        done = subprocess.run(
            [*command, "-m", "contest.redistribution", task],
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
    """Make the table: a line for each transition and size."""
    found: list[Result] = []
    for size, took in measured["took"].items():
        median = {name: statistics.median(values) for name, values in took.items()}
        for name in (name.removeprefix("ours: ") for name in median if name.startswith("ours: ")):
            theirs = median.get(f"torch: {name}")
            what = f"{name}, {_spell(int(size))}, {ranks} ranks"
            found.append(result(what, "us", median[f"ours: {name}"], theirs, median["copy"]))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=15, steps=1)
    made.add_argument("--ranks", type=positive, default=2, help="world size (default 2)")
    options = made.parse_args(argv)
    shapes, rounds = (SHAPES[:1], 1) if options.tiny else (SHAPES, options.rounds)
    results = lines(options.ranks, run(options.ranks, shapes, rounds, peer_present(options)))
    for each in results:
        times = "" if not each["ratio"] else f", torch {1 / each['ratio']:.1f} times as long"
        print(f"{each['name']}: {each['ours']:,.4g} {each['unit']}{times}", flush=True)
    write(options, results)
    return 0


def _spell(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


if __name__ == "__main__":
    sys.exit(main())
