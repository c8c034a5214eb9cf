"""The command line and environment that start n processes, for each MPI and each way to other hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardwise.launch.host import Host
from shardwise.launch.mpi import Flavour, MpiInstallation
from shardwise.launch.reach import Reach

__all__ = ["RANK_VARIABLES", "Command", "flux_command", "mpi_command", "srun_command"]

RANK_VARIABLES: dict[Flavour, str] = {
    "mpich": "PMI_RANK",
    "intel": "PMI_RANK",
    "openmpi": "OMPI_COMM_WORLD_RANK",
}
"""Where a process reads its rank before MPI is initialised."""

# How srun connects the processes, unless SLURM_MPI_TYPE says.
_SRUN_PLUGINS: dict[Flavour | None, str] = {
    "mpich": "pmi2",
    "intel": "pmi2",
    "openmpi": "pmix",
    None: "cray_shasta",
}


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute, and which variables to add to the environment for it."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def mpi_command(
    mpi: MpiInstallation,
    n: int,
    program: tuple[str, ...],
    cores: int,
    reach: Reach | None = None,
    exported: Sequence[str] = (),
) -> Command:
    """Build the command that starts `program` as `n` ranks.

    Parameters
    ----------
    mpi : MpiInstallation
        From :func:`~shardwise.launch.mpi.find_mpi`.
    n : int
        Number of ranks.
    program : tuple of str
        The program that every rank runs, with its arguments.
    cores : int
        Cores of a host that can be busy at once. With more ranks than that, waiting ranks must give way.
    reach : Reach, optional
        The hosts and the way to them; this host alone by default.
    exported : sequence of str
        Variables that ranks on other hosts are to have, where MPI does not pass on all of them.

    Returns
    -------
    Command

    Notes
    -----
    Nothing is bound by MPI: ranks pin themselves (Open MPI would put all threads of a rank on one core, MPICH
    does not bind at all), so that a rank gets the same cores under each MPI.
    """
    there = reach if reach is not None and reach.hosts else None
    crowded = max((host.slots or 0 for host in there.hosts), default=0) > cores if there else n > cores
    if mpi.flavour == "openmpi":
        return _open_mpi(mpi, n, program, there, exported, crowded=crowded)
    if mpi.flavour == "intel":
        return _intel(mpi, n, program, there, crowded=crowded)
    return _mpich(mpi, n, program, there)


def srun_command(flavour: Flavour | None, program: tuple[str, ...], reach: Reach, *, choose: bool) -> Command:
    """Build the command by which Slurm starts the ranks itself, inside an allocation.

    Parameters
    ----------
    flavour : Flavour or None
        Of the library that mpi4py uses; None means Cray's.
    program : tuple of str
    reach : Reach
        With the hosts of the allocation.
    choose : bool
        Whether to say how processes are to be connected; not where the user has, in ``SLURM_MPI_TYPE``.
    """
    n = sum(host.slots or 0 for host in reach.hosts)
    argv = ["srun", f"--ntasks={n}", f"--nodes={len(reach.hosts)}", "--distribution=block"]
    if len({host.slots for host in reach.hosts}) == 1:
        argv.append(f"--ntasks-per-node={reach.hosts[0].slots}")
    argv.append(f"--nodelist={','.join(host.name for host in reach.hosts)}")
    if choose:
        argv.append(f"--mpi={_SRUN_PLUGINS[flavour]}")
    return Command((*argv, "--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL", *program))


def flux_command(n: int, program: tuple[str, ...]) -> Command:
    """Build the command by which Flux starts the ranks itself."""
    return Command(("flux", "run", f"--ntasks={n}", "--setopt=cpu-affinity=off", *program))


def _mpich(mpi: MpiInstallation, n: int, program: tuple[str, ...], reach: Reach | None) -> Command:
    # A batch system that surrounds us must not choose the hosts a second time.
    chosen = ("-rmk", "user", "-bind-to", "none")
    if reach is None:
        # One host needs no remote shell.
        return Command((mpi.mpiexec, "-launcher", "fork", *chosen, "-n", str(n), *program))
    way = ["-launcher", reach.launcher]
    if reach.agent is not None:
        way += ["-launcher-exec", reach.agent]
    if reach.named_interface:
        way += ["-iface", reach.named_interface]
    return Command(
        (mpi.mpiexec, *way, *chosen, "-genvall", "-hosts", _counted(reach.hosts), "-n", str(n), *program)
    )


def _intel(
    mpi: MpiInstallation, n: int, program: tuple[str, ...], reach: Reach | None, *, crowded: bool
) -> Command:
    environment = {"I_MPI_PIN": "0"}
    if crowded:
        environment["I_MPI_WAIT_MODE"] = "1"
    if reach is None:
        return Command((mpi.mpiexec, "-localonly", "-n", str(n), *program), environment)
    way = ["-bootstrap", reach.launcher]
    if reach.agent is not None:
        way += ["-bootstrap-exec", reach.agent]
    if reach.named_interface:
        way += ["-iface", reach.named_interface]
    parts: list[str] = []
    for host in reach.hosts:  # -hosts takes no numbers
        parts += [*([":"] if parts else []), "-n", str(host.slots), "-host", host.name, *program]
    return Command((mpi.mpiexec, *way, "-rmk", "user", "-genvall", *parts), environment)


def _open_mpi(
    mpi: MpiInstallation,
    n: int,
    program: tuple[str, ...],
    reach: Reach | None,
    exported: Sequence[str],
    *,
    crowded: bool,
) -> Command:
    argv = [mpi.mpiexec]
    if os.getuid() == 0:
        # Open MPI refuses root unless told so. As root the user can do no more with this flag than without
        # it, and in containers, where most root runs happen, there is no other user.
        argv.append("--allow-run-as-root")
    # Slots are physical cores: without this, -n 2 on one core with two hardware threads would be refused.
    argv += ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE" if reach is None else "slot:OVERSUBSCRIBE"]
    if crowded:
        argv += ["--mca", "mpi_yield_when_idle", "1"]
    if reach is not None:
        argv += _open_mpi_way(mpi, reach)
        for name in exported:  # it passes on nothing by itself
            argv += ["-x", name]
    return Command((*argv, "-n", str(n), *program))


def _open_mpi_way(mpi: MpiInstallation, reach: Reach) -> list[str]:
    match = re.search(r"v(\d+)\.", mpi.version)
    old = match is not None and int(match[1]) < 5
    run_time, shell = ("--mca", "rsh") if old else ("--prtemca", "ssh")
    agent = reach.agent
    if agent is None and reach.launcher in ("lsf", "sge"):
        agent = "blaunch" if reach.launcher == "lsf" else "qrsh -inherit -nostdin -V"
    way = ["--host", _counted(reach.hosts)]
    way += [run_time, "plm", "slurm" if reach.launcher == "slurm" else shell]
    if agent is not None:
        way += [run_time, f"plm_{shell}_agent", agent]
    if reach.iface is not None:
        way += ["--mca", "btl_tcp_if_include", reach.iface]
        way += [run_time, "oob_tcp_if_include" if old else "prte_if_include", reach.iface]
    return way


def _counted(hosts: Sequence[Host]) -> str:
    return ",".join(
        f"[{host.name}]:{host.slots}" if ":" in host.name else f"{host.name}:{host.slots}" for host in hosts
    )
