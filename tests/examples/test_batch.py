"""Batch scripts and the image's definition: what their readers make of them, without a cluster."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from house.floors import ROOT

SCRIPTS = sorted((ROOT / "examples" / "slurm").glob("*.sbatch"))
DEFINITION = ROOT / "examples" / "apptainer" / "shardwise.def"

# What sbatch takes, of what such scripts use, and how a value looks.
OPTIONS: dict[str, str | None] = {
    "--signal": r"USR1@\d+",
    "--requeue": None,
    "--job-name": r"[\w-]+",
    "--nodes": r"\d+",
    "--ntasks-per-node": r"\d+",
    "--cpus-per-task": r"\d+",
    "--gpus-per-node": r"\d+",
    "--time": r"\d\d:\d\d:\d\d",
    "--output": r"%x-%j\.out",
}
SRUN = {"--mpi", "--cpu-bind", "--kill-on-bad-exit", "--ntasks-per-node"}
SECTIONS = ["arguments", "files", "post", "environment", "runscript", "test", "labels"]


def directives(text: str) -> dict[str, str | None]:
    """Read #SBATCH lines as sbatch does: up to the first command."""
    found: dict[str, str | None] = {}
    for line in text.splitlines()[1:]:
        if line.startswith("#SBATCH "):
            for option in shlex.split(line.removeprefix("#SBATCH "), comments=True):
                name, equals, value = option.partition("=")
                found[name] = value if equals else None
        elif line and not line.startswith("#"):
            break
    return found


def commands(text: str) -> list[list[str]]:
    """The commands of a script, as words."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [shlex.split(line, comments=True) for line in lines]


def test_there_is_one_for_cpus_and_one_for_gpus() -> None:
    assert [path.name for path in SCRIPTS] == ["cpu.sbatch", "gpu.sbatch"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_reads_it(path: Path) -> None:
    assert path.read_text().startswith("#!/bin/bash\n")
    subprocess.run(["bash", "-n", path], check=True, timeout=10)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_sbatch_knows_its_options(path: Path) -> None:
    text = path.read_text()
    found = directives(text)
    assert len(found) == text.count("\n#SBATCH ")  # none behind a command, where it would not count
    for name, value in found.items():
        pattern = OPTIONS[name]
        assert (value is None) == (pattern is None), name
        assert pattern is None or re.fullmatch(pattern, value or ""), f"{name}={value}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_it_starts_the_ranks_in_the_end(path: Path) -> None:
    *_, last = commands(path.read_text())
    assert last[:2] == ["exec", "srun"]
    script = next(i for i, word in enumerate(last) if word == "python")
    assert {word.partition("=")[0] for word in last[2:script]} <= SRUN
    assert (ROOT / last[script + 1]).exists()
    modules = [line[line.index("-m") + 1] for line in commands(path.read_text()) if "-m" in line]
    assert modules == ["shardwise.launch.doctor"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_signal_is_asked_for_that_the_script_dies_of(path: Path) -> None:
    text = path.read_text()
    script = ROOT / re.findall(r"python (examples/\S+)", text)[-1]
    asked = any(name in directives(text) for name in ("--signal", "--requeue"))
    assert asked <= ("watch_preemption" in script.read_text())


def test_there_is_a_gpu_for_each_rank() -> None:
    found = directives((ROOT / "examples" / "slurm" / "gpu.sbatch").read_text())
    assert found["--gpus-per-node"] == found["--ntasks-per-node"]


def test_the_definition_of_the_image() -> None:
    header, *parts = re.split(r"^%", DEFINITION.read_text(), flags=re.M)
    assert dict(re.findall(r"^(\w+): (.+)$", header, re.M)) == {
        "Bootstrap": "docker",
        "From": "python:3.12-slim-bookworm",
    }
    sections = {name: body for name, _, body in (part.partition("\n") for part in parts)}
    assert list(sections) == SECTIONS
    given = set(re.findall(r"^\s+(\w+)=", sections["arguments"], re.M))
    assert set(re.findall(r"{{ (\w+) }}", DEFINITION.read_text())) == given == {"extras"}
    for name in ("post", "environment", "runscript", "test"):
        subprocess.run(["sh", "-n"], input=sections[name], text=True, check=True, timeout=10)
