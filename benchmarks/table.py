"""Run every benchmark beside this file and print one table: ``make bench``.

A benchmark is a script that takes ``--json FILE`` and writes a list of results, each with the keys of
`Result`; what the peer did is null where the peer is not installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

HERE = Path(__file__).resolve().parent


class Result(TypedDict):
    """One line: `ratio` is ours over the peer's, `share_of_limit` a fraction of the machine's limit."""

    name: str
    unit: str
    ours: float
    peer: float | None
    ratio: float | None
    limit: float | None
    share_of_limit: float | None


def measure(script: Path, arguments: Sequence[str] = ()) -> list[Result]:
    """Run one benchmark, showing what it prints, and return its results.

    Raises
    ------
    subprocess.CalledProcessError
        If the benchmark fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        subprocess.run([sys.executable, script, "--json", file, *arguments], check=True)
        results: list[Result] = json.loads(file.read_text(encoding="utf-8"))
        return results


def table(results: Sequence[Result]) -> str:
    """Lay the results out in columns; a dash stands for what was not measured."""
    rows = [["benchmark", "unit", "ours", "peer", "ours/peer", "limit", "of limit"]]
    for result in results:
        share = result["share_of_limit"]
        rows.append(
            [
                result["name"],
                result["unit"],
                *map(_number, (result["ours"], result["peer"], result["ratio"], result["limit"])),
                "-" if share is None else f"{share:.0%}",
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    # Words are read from the left, numbers compared from the right.
    line = "  ".join(f"{{:{'<' if column < 2 else '>'}{width}}}" for column, width in enumerate(widths))
    return "\n".join(line.format(*row) for row in rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks named, or all; end with 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="benchmarks to run, without .py (default: all)")
    options = parser.parse_args(argv)
    there = {file.stem: file for file in sorted(HERE.glob("*.py")) if file != Path(__file__).resolve()}
    unknown = [name for name in options.names if name not in there]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(there)}")
    results: list[Result] = []
    failed: list[str] = []
    for name in options.names or there:
        print(f"== {name}", flush=True)
        try:
            results += measure(there[name])
        except subprocess.CalledProcessError as error:
            failed.append(f"{name} ended with {error.returncode}")
    print("", table(results), *failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
