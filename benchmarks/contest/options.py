"""What every benchmark can be told, and where its results go."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

from table import Result

__all__ = ["parser", "peer_present", "positive", "result", "write"]


def parser(description: str, rounds: int, steps: int) -> argparse.ArgumentParser:
    """Make a parser with the options that all benchmarks share.

    Parameters
    ----------
    description : str
    rounds, steps : int
        Their defaults.
    """
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    made.add_argument(
        "--rounds", type=positive, default=rounds, help=f"turns of each side (default {rounds})"
    )
    made.add_argument("--steps", type=positive, default=steps, help=f"timed in each turn (default {steps})")
    made.add_argument("--no-peer", action="store_true", help="measure ours alone, also where torch is there")
    made.add_argument("--tiny", action="store_true", help="next to no data: does the benchmark work?")
    return made


def positive(text: str) -> int:
    """Read a number that has to be at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


def peer_present(options: argparse.Namespace) -> bool:
    """Tell whether to measure torch too: it is installed and was not refused."""
    if options.no_peer or importlib.util.find_spec("torch") is None:
        print("torch is not measured: " + ("--no-peer" if options.no_peer else "it is not installed"))
        return False
    return True


def result(
    name: str,
    unit: str,
    ours: float,
    peer: float | None = None,
    limit: float | None = None,
    more: bool = False,
) -> Result:
    """Make one line of the table; the ratio and the share of the limit follow from the others.

    Parameters
    ----------
    more : bool
        More is better, as with a rate. The share of the limit is then ours over it, else it over ours.
    """
    share = None if limit is None else ours / limit if more else limit / ours
    return Result(
        name=name,
        unit=unit,
        ours=ours,
        peer=peer,
        ratio=None if peer is None else ours / peer,
        limit=limit,
        share_of_limit=share,
    )


def write(options: argparse.Namespace, results: Sequence[Result]) -> None:
    """Write the results where ``--json`` says."""
    if options.json is not None:
        options.json.write_text(json.dumps(list(results), indent=1) + "\n", encoding="utf-8")
