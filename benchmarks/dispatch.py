"""What a DTensor adds to an op on small parts, against torch's DTensor over gloo, in one run.

Ours and torch take turns in the same processes. An op that is known costs what it costs on the part alone,
and what finding its strategy and wrapping its result add: that difference is what the lines tell. Whole
passes forward and backward are told as they are.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from contest.dispatching import BACKWARDS, OPS
from contest.options import parser, peer_present, result, write
from table import Result

RANKS, OFTEN = 2, 500
_SECONDS = 1800.0
_RUN = "import sys; from shardwise.launch.cli import main; sys.exit(main())"


def run(rounds: int, often: int, gloo: bool) -> dict[str, list[float]]:
    """Measure on two ranks, started as users start theirs.

    Raises
    ------
    subprocess.CalledProcessError
        If a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder, "gloo")) if gloo else ""
        task = json.dumps({"rounds": rounds, "often": often, "gloo": meeting})
        command = [sys.executable, "-c", _RUN, "run", "-n", str(RANKS), "--show-ranks", "0"]
        done = subprocess.run(
            [*command, "-m", "contest.dispatching", task],
            cwd=Path(__file__).resolve().parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if "{" in line)
    measured: dict[str, list[float]] = json.loads(line[line.index("{") :])
    return measured


def lines(took: dict[str, list[float]]) -> list[Result]:
    """Make the table: what each op costs above the local one, and what whole passes cost."""

    def median(side: str, name: str) -> float | None:
        dtensor = took.get(f"{side}: dtensor: {name}")
        if dtensor is None:
            return None
        if name in BACKWARDS:
            return statistics.median(dtensor)
        local = took[f"{side}: local: {name}"]
        return statistics.median([a - b for a, b in zip(dtensor, local, strict=True)])

    found: list[Result] = []
    for name in (*OPS, *BACKWARDS):
        mine = median("ours", name)
        assert mine is not None
        what = name if name in BACKWARDS else f"{name}, above the local op"
        found.append(result(f"DTensor: {what}", "us", mine, median("torch", name)))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    options = parser(__doc__.splitlines()[0], rounds=15, steps=1).parse_args(argv)
    rounds, often = (1, 10) if options.tiny else (options.rounds, OFTEN)
    results = lines(run(rounds, often, peer_present(options)))
    for each in results:
        theirs = "" if each["peer"] is None else f", torch {each['peer']:.3g}"
        print(f"{each['name']}: {each['ours']:.3g} us{theirs}", flush=True)
    write(options, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
