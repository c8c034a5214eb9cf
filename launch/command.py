"""The command line and environment that start n processes on this host, for each make of MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from shardwise.launch.mpi import Flavour, MpiInstallation

__all__ = ["RANK_VARIABLES", "Command", "mpi_command"]

RANK_VARIABLES: dict[Flavour, str] = {
    "mpich": "PMI_RANK",
    "intel": "PMI_RANK",
    "openmpi": "OMPI_COMM_WORLD_RANK",
}
"""Where a process reads its rank before MPI is initialised."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute, and which variables to add to the environment for it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def mpi_command(mpi: MpiInstallation, n: int, program: tuple[str, ...], cores: int) -> Command:
    """Build the command that starts `program` as `n` ranks on this host.

    Parameters
    ----------
    mpi : MpiInstallation
        From :func:`~shardwise.launch.mpi.find_mpi`.
    n : int
        Number of ranks.
    program : tuple of str
        The program that every rank runs, with its arguments.
    cores : int
        Cores that can be busy at once. With more ranks than that, waiting ranks must give way.

    Returns
    -------
    Command

    Notes
    -----
    Nothing is bound by MPI: ranks pin themselves (Open MPI would put all threads of a rank on one core, MPICH
    does not bind at all), so that a rank gets the same cores under each MPI.
    """
    if mpi.flavour == "openmpi":
        return _open_mpi(mpi.mpiexec, n, program, crowded=n > cores)
    if mpi.flavour == "intel":
        environment = {"I_MPI_PIN": "0"}
        if n > cores:
            environment["I_MPI_WAIT_MODE"] = "1"
        return Command((mpi.mpiexec, "-localonly", "-n", str(n), *program), environment)
    # One host needs no remote shell, and a batch system that surrounds us must not send ranks to others.
    local = ("-launcher", "fork", "-rmk", "user", "-bind-to", "none")
    return Command((mpi.mpiexec, *local, "-n", str(n), *program))


def _open_mpi(mpiexec: str, n: int, program: tuple[str, ...], *, crowded: bool) -> Command:
    argv = [mpiexec]
    if os.getuid() == 0:
        # Open MPI refuses root unless told so. As root the user can do no more with this flag than without
        # it, and in containers, where most root runs happen, there is no other user.
        argv.append("--allow-run-as-root")
    # Slots are physical cores: without this, -n 2 on one core with two hardware threads would be refused.
    argv += ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    if crowded:
        argv += ["--mca", "mpi_yield_when_idle", "1"]
    return Command((*argv, "-n", str(n), *program))
