"""``shardwise schedule``: draws, explains and compares the schedules of a pipeline; starts no ranks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from shardwise.backend.errors import ScheduleError
from shardwise.launch.failure import SPEAKER
from shardwise.pipelining import (
    Costs,
    Program,
    Simulation,
    best_schedule,
    draw,
    draw_png,
    draw_svg,
    explain,
    get_schedule_class,
    lower,
    require_valid,
    simulate,
    write_trace,
)

__all__ = ["main"]

_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 2 for what cannot be done as asked."""
    arguments = _parser().parse_args(argv)
    try:
        costs = Costs() if arguments.costs is None else Costs.from_file(arguments.costs)
        run = simulate(_program(arguments, costs), costs, lanes=costs.bandwidth is not None)
        _show(run, arguments)
        _write(run, arguments)
    except (ScheduleError, OSError) as error:
        print(f"{SPEAKER}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shardwise schedule",
        description="Draw a pipeline schedule and say what its time goes into, by unit costs or those of a "
        "file.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "name", help="of a schedule (1F1B, ZBVZeroBubble, ...), 'best' for the best one, or a CSV file"
    )
    parser.add_argument("-n", "--ranks", type=int, default=4, help="number of ranks (default 4)")
    parser.add_argument(
        "-m", "--microbatches", type=int, default=8, help="number of microbatches (default 8)"
    )
    parser.add_argument("--stages-per-rank", type=int, metavar="V", help="as the schedule has it by default")
    parser.add_argument(
        "--costs", type=Path, metavar="FILE", help='JSON: {"F": 1.0, "I": [1.0, ...], "latency": 0.1, ...}'
    )
    parser.add_argument(
        "--memory", type=float, metavar="CAP", help="for best: activations that a rank can hold"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write a picture; needs matplotlib")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the program, with its transfers")
    parser.add_argument("--columns", type=int, default=40, help="units of time in the grid (default 40)")
    return parser


def _program(arguments: argparse.Namespace, costs: Costs) -> Program:
    """Return the program that is asked for, and say how it was found."""
    if arguments.name.endswith(".csv"):
        program = Program.from_csv(arguments.name)
        require_valid(program, replicas=2)
        return program
    if arguments.name.lower() == "best":
        per_rank = arguments.stages_per_rank or 1
        choice = best_schedule(
            arguments.ranks, arguments.microbatches, {per_rank: costs}, memory=arguments.memory
        )
        print(choice, end="\n\n")
        return choice.program
    kind = get_schedule_class(arguments.name)
    return kind(arguments.ranks, arguments.microbatches, stages_per_rank=arguments.stages_per_rank).program


def _show(run: Simulation, arguments: argparse.Namespace) -> None:
    print(draw(run, arguments.columns), end="\n\n")
    print(explain(run))
    print(f"peak of activations: {', '.join([f'{each:g}' for each in run.peak])}")


def _write(run: Simulation, arguments: argparse.Namespace) -> None:
    if arguments.svg is not None:
        draw_svg(run, arguments.svg)
    if arguments.png is not None:
        draw_png(run, arguments.png)
    if arguments.trace is not None:
        write_trace(run, arguments.trace)
    if arguments.csv is not None:
        program = run.program if run.program.has_transfers else lower(run.program)
        program.to_csv(arguments.csv)


if __name__ == "__main__":
    sys.exit(main())
