"""The command ``shardwise schedule``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardwise.launch.schedule import main
from shardwise.pipelining import Program, check


def test_a_named_schedule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.svg", "a.json", "a.csv")]
    options = ["--svg", str(files[0]), "--trace", str(files[1]), "--csv", str(files[2])]
    assert main(["1F1B", "--ranks", "2", "--microbatches", "3", *options]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "rank 0 |F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2"
    assert "12 units, bubble 25.0%; ranks wait 3, 3" in lines
    assert lines[-2] == "peak of activations: 2, 1"
    assert files[0].read_text().startswith("<svg")
    assert json.loads(files[1].read_text())["traceEvents"]
    assert check(Program.from_csv(files[2]), ranks=2, microbatches=3) == []
    assert main([str(files[2])]) == 0


def test_costs_and_the_best(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "costs.json").write_text(json.dumps({"F": 1.0, "I": 1.2, "W": 0.8, "latency": 0.1}))
    costs = ["--costs", str(tmp_path / "costs.json")]
    assert main(["best", "-n", "3", "-m", "6", "--memory", "3", *costs]) == 0
    assert "does not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["2F2B"], "there is no schedule '2F2B'"),
        (["DualPipe", "-n", "3"], "wanted an even number of ranks, got 3"),
        (["1F1B", "--costs", "nowhere.json"], "cannot read costs from nowhere.json"),
        (["nowhere.csv"], "No such file"),
    ],
)
def test_what_is_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_by_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardwise", "schedule", "GPipe", "-n", "2", "-m", "2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split("\n")[0]) == (0, "rank 0 |F0 F1 .. .. .. B0 B0 B1 B1")
