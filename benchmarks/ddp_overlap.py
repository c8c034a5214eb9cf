"""What talking costs a data-parallel step, and how much of it hides behind the backward.

Three things take turns: steps that average their gradients, steps that do not (``no_sync``), and an
all-reduce of as many numbers as there are gradients, alone. What the first takes more than the second
is the communication that shows; the third is what there was to hide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from contest.options import parser, peer_present, positive, result, write
from contest.rounds import Rounds, ratio
from contest.task import FULL, TINY
from contest.team import Side, Team
from table import Result

WARM_UP = 2
AVERAGED, LOCAL, LONE = "a step", "a step without communication", "the all-reduce alone"


def measures(team: Team, steps: int) -> dict[str, Callable[[], list[float]]]:
    """The three things that take turns; each returns milliseconds, by the slowest rank."""

    def laps(synchronised: bool) -> list[float]:
        _, *timed = zip(*team.steps(steps + 1, synchronised), strict=True)
        return [max(lap.seconds for lap in ranks) * 1e3 for ranks in timed]

    return {
        AVERAGED: lambda: laps(True),
        LOCAL: lambda: laps(False),
        LONE: lambda: [seconds * 1e3 for seconds in team.all_reduce(steps + 1)[1:]],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    made = parser(__doc__.splitlines()[0], rounds=7, steps=3)
    made.add_argument("--ranks", type=positive, default=2, help="world size (default 2)")
    options = made.parse_args(argv)
    if options.ranks == 1:
        made.error("argument --ranks: one rank has nobody to talk to; give 2 or more")
    task = TINY if options.tiny else FULL
    sides: list[Side] = ["ours", "torch"] if peer_present(options) else ["ours"]
    took: dict[tuple[str, Side], list[list[float]]] = {}
    with ExitStack() as stack:
        teams: dict[Side, Team] = {}
        cores = None
        for side in sides:
            teams[side] = stack.enter_context(Team(side, task, options.ranks, cores))
            cores = teams[side].cores
            teams[side].steps(WARM_UP)
        for _ in range(options.rounds):
            for side, team in teams.items():
                for what, measure in measures(team, options.steps).items():
                    took.setdefault((what, side), []).append(measure())
    cost: dict[Side, float] = {}
    alone: dict[Side, float] = {}
    for side in sides:
        averaged, local, lone = (Rounds(took[what, side]) for what in (AVERAGED, LOCAL, LONE))
        for what, rounds in ((AVERAGED, averaged), (LOCAL, local), (LONE, lone)):
            print(f"{side}: {what} {rounds.show('ms')}")
        print(f"{side}: a step over one without communication {ratio(averaged, local)}")
        cost[side], alone[side] = averaged.median / local.median, lone.median
    where = f"DDP, {options.ranks} ranks"
    lines: list[Result] = [
        result(f"{where}: step over one without communication", "x", cost["ours"], cost.get("torch")),
        result(f"{where}: all-reduce of the gradients alone", "ms", alone["ours"], alone.get("torch")),
    ]
    write(options, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
