"""The table over all benchmarks, with made-up benchmarks beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from house.floors import ROOT

WRITES = "import sys, json; json.dump({results}, open(sys.argv[sys.argv.index('--json') + 1], 'w'))"


def run_table(folder: Path, benchmarks: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "benchmarks" / "table.py", folder)
    for name, text in benchmarks.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, str(folder / "table.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def one(name: str, ours: float, *rest: float | None) -> str:
    keys = ("name", "unit", "ours", "peer", "ratio", "limit", "share_of_limit")
    return json.dumps([dict(zip(keys, (name, "ms", ours, *rest), strict=True))]).replace("null", "None")


def test_all_results_come_in_one_table(tmp_path: Path) -> None:
    first = WRITES.format(results=one("step", 12345.6, 2.0, 0.5, 1.0, 0.254))
    second = WRITES.format(results=one("import", 7, None, None, None, None))
    done = run_table(tmp_path, {"step": first, "import_time": second})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "== import_time",
        "== step",
        "",
        "benchmark  unit       ours  peer  ours/peer  limit  of limit",
        "---------  ----  ---------  ----  ---------  -----  --------",
        "import     ms            7     -          -      -         -",
        "step       ms    1.235e+04     2        0.5      1       25%",
    ]


def test_a_failing_benchmark_is_named_and_the_others_still_run(tmp_path: Path) -> None:
    done = run_table(
        tmp_path, {"a": "raise SystemExit(3)", "b": WRITES.format(results=one("b", 1, *[None] * 4))}
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "b          ms       1     -          -      -         -",
        "a ended with 3",
    ]


def test_an_unknown_name_says_which_there_are(tmp_path: Path) -> None:
    done = run_table(tmp_path, {"step": "", "import_time": ""}, "stepp")
    assert done.returncode == 2
    assert done.stderr.endswith("no benchmark is called stepp; there are import_time, step\n")
