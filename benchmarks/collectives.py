"""Collectives on one host against gloo, blocking mpi4py, and a copy of the array by all ranks at once.

Ours, gloo and MPI take turns in the same processes, on a core each where there are enough.
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

SIZES = (1 << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 24, 1 << 26)
RANKS = (2, 4)
_SECONDS = 1800.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


def run(ranks: int, sizes: Sequence[int], rounds: int, idle: float, gloo: bool, mpi: bool) -> dict[str, Any]:
    """Measure on so many ranks, started as users start theirs.

    Raises
    ------
    subprocess.CalledProcessError
        If a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder, "gloo")) if gloo else ""
        task = json.dumps({"sizes": sizes, "rounds": rounds, "idle": idle, "gloo": meeting, "mpi": mpi})
        command = [sys.executable, "-c", _RUN, "run", "-n", str(ranks), "--show-ranks", "0"]
        done = subprocess.run(
            [*command, "-m", "contest.collective", task],
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
    """Make the table: a line for each collective, kind of array and size, against each peer."""
    found: list[Result] = []
    for size, took in measured["took"].items():
        median = {name: statistics.median(values) for name, values in took.items()}
        for name in (name for name in median if name.startswith("ours: ")):
            collective = name.removeprefix("ours: ").partition(",")[0]
            for peer in ("gloo", "mpi"):
                theirs = median.get(f"{peer}: {collective}")
                what = f"{name.removeprefix('ours: ')}, {_spell(int(size))}, {ranks} ranks, against {peer}"
                found.append(result(what, "us", median[name], theirs, median["copy"]))
    what = f"core used by a rank that waits, {ranks} ranks"
    return [*found, result(what, "%", 100 * measured["idle"], limit=5.0, more=True)]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=9, steps=1)
    made.add_argument(
        "--ranks", type=positive, nargs="*", default=RANKS, help="world sizes (default 2 and 4)"
    )
    options = made.parse_args(argv)
    sizes, idle = ((1 << 10,), 0.1) if options.tiny else (SIZES, 1.0)
    rounds = 1 if options.tiny else options.rounds
    gloo, mpi = peer_present(options), not options.no_peer
    results: list[Result] = []
    for ranks in (2,) if options.tiny else options.ranks:
        some = lines(ranks, run(ranks, sizes, rounds, idle, gloo, mpi))
        for each in some:
            ratio = "" if each["ratio"] is None else f", {each['ratio']:.2f} of theirs"
            print(f"{each['name']}: {each['ours']:,.4g} {each['unit']}{ratio}", flush=True)
        results += some
    write(options, results)
    return 0


def _spell(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


if __name__ == "__main__":
    sys.exit(main())
