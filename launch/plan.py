"""Everything that is decided before a job starts: command, environment, cores, warnings."""

from __future__ import annotations

import socket
import sys
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwise.backend.errors import LaunchError
from shardwise.collectives.mpi.detect import launcher_environment
from shardwise.launch.command import RANK_VARIABLES, Command, flux_command, mpi_command, srun_command
from shardwise.launch.cores import find_cores, split_cores, thread_environment
from shardwise.launch.mpi import find_library, find_mpi
from shardwise.launch.rank import HANDED
from shardwise.launch.reach import Reach

__all__ = ["Plan", "plan_job", "refuse_nested"]

_MOST_RANKS_PER_CORE = 16

# Variables that ranks on other hosts must not get from here.
_OF_THIS_HOST = frozenset(
    ("HOSTNAME", "HOST", "PWD", "OLDPWD", "SHLVL", "_", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY")
)
_OF_THIS_PROCESS = ("SSH_", "XDG_", "DBUS_", "SLURM_", "PBS_", "LSB_", "OMPI_", "PMIX_", "PRTE_", "PMI_")


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that can be started, printed, or looked at.

    Attributes
    ----------
    reach : Reach
        Number of ranks and where they run.
    argv : tuple of str
        The command.
    environment : mapping
        Variables to add for it.
    warnings : tuple of str
        What the user should know.
    """

    reach: Reach
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    warnings: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.reach.size


def plan_job(
    reach: Reach,
    target: tuple[str, ...],
    environ: Mapping[str, str],
    *,
    pin: bool = True,
    oversubscribe: bool = False,
    mpiexec: str | None = None,
    share_gpus: bool = False,
) -> Plan:
    """Decide how to start the ranks of a script.

    Parameters
    ----------
    reach : Reach
        Number of ranks, hosts, and the way to them. One rank on this host is started without MPI.
    target : tuple of str
        ``(script, *arguments)`` or ``("-m", module, *arguments)``.
    environ : mapping
        The environment of the launcher.
    pin : bool
        Whether to give each rank cores of its own, if there are enough.
    oversubscribe : bool
        Whether more than 16 ranks per core are meant.
    mpiexec : str, optional
        The mpiexec to use.
    share_gpus : bool
        Whether several ranks may have one GPU.

    Returns
    -------
    Plan

    Raises
    ------
    LaunchError
        If the number of ranks makes no sense here, this process is a rank itself, or there is no MPI for it.
    """
    if reach.size < 1:
        raise LaunchError(f"the number of ranks must be at least 1, got {reach.size}")
    refuse_nested(environ)
    environment = {
        "MASTER_ADDR": _first_host(reach),
        "MASTER_PORT": str(_free_port()),
        "SHARDWISE_RESTART_COUNT": "0",
        "SHARDWISE_RUN_ID": uuid.uuid4().hex[:12],
    }
    if reach.launcher == "fork":
        more, warnings = _share_this_host(reach.size, environ, pin=pin, oversubscribe=oversubscribe)
        environment |= more
    else:
        # Each host has cores of its own, which its ranks divide when they are there.
        environment["SHARDWISE_CORES"] = "own" if pin else "count"
        warnings = []
    if share_gpus:
        environment["SHARDWISE_SHARE_GPUS"] = "1"
    if reach.iface is not None:
        environment["SHARDWISE_IFACE"] = reach.iface
    program = (sys.executable, str(Path(__file__).with_name("rank.py")))
    if reach.size == 1 and reach.launcher == "fork":
        return Plan(reach, (*program, "0", "1", *target), environment, tuple(warnings))
    command = _command(reach, program, target, environ, environment, mpiexec, warnings)
    return Plan(reach, command.argv, {**environment, **command.environment}, tuple(warnings))


def _first_host(reach: Reach) -> str:
    """Give a name of the first host that means the same on all of them."""
    if not reach.hosts:
        return "127.0.0.1"
    name = reach.hosts[0].name
    return socket.gethostname() if name in ("localhost", "127.0.0.1", "::1") else name


def _share_this_host(
    size: int, environ: Mapping[str, str], *, pin: bool, oversubscribe: bool
) -> tuple[dict[str, str], list[str]]:
    """Divide the cores of this host: variables to set, and warnings."""
    cores = find_cores()
    if size > _MOST_RANKS_PER_CORE * cores.count and not oversubscribe:
        raise LaunchError(
            f"{size} ranks on {cores.count} {_cores(cores.count)} is more than {_MOST_RANKS_PER_CORE} per "
            f"core: use -n {cores.count}, or --oversubscribe if you mean it"
        )
    environment = thread_environment(max(1, cores.count // size), environ)
    warnings = []
    if size > cores.count:
        warnings.append(
            f"{size} ranks share {cores.count} {_cores(cores.count)}, so each runs slower and waits for the "
            f"others' turns; -n {cores.count} gives each a core of its own"
        )
    elif pin and cores.pinnable:
        shares = split_cores(cores.allowed, size)
        environment["SHARDWISE_CORES"] = ";".join(",".join(map(str, share)) for share in shares)
    return environment, warnings


def _command(
    reach: Reach,
    program: tuple[str, ...],
    target: tuple[str, ...],
    environ: Mapping[str, str],
    environment: Mapping[str, str],
    mpiexec: str | None,
    warnings: list[str],
) -> Command:
    size = str(reach.size)
    if reach.launcher == "srun":
        _, flavour = find_library()
        ranked = (*program, "SLURM_PROCID", size, *target)
        return srun_command(flavour, ranked, reach, choose="SLURM_MPI_TYPE" not in environ)
    if reach.launcher == "flux":
        return flux_command(reach.size, (*program, "FLUX_TASK_RANK", size, *target))
    mpi = find_mpi(mpiexec)
    if mpi.note is not None:
        warnings.append(mpi.note)
    ranked = (*program, RANK_VARIABLES[mpi.flavour], size, *target)
    return mpi_command(
        mpi, reach.size, ranked, find_cores().count, reach, _exported({*environ, *environment, *HANDED})
    )


def _exported(names: Iterable[str]) -> list[str]:
    """Leave out what is true of this host or of this process alone."""
    return sorted(
        name
        for name in names
        if name.isidentifier() and name not in _OF_THIS_HOST and not name.startswith(_OF_THIS_PROCESS)
    )


def refuse_nested(environ: Mapping[str, str]) -> None:
    """Refuse to start ranks from a rank.

    Raises
    ------
    LaunchError
        This process is a rank itself.
    """
    around = launcher_environment(environ)
    if around is None or around.size == 1:
        return  # a world of one may start others: nobody else would start them too
    if "SHARDWISE_RUN_ID" in environ:
        raise LaunchError(
            f"this process is already rank {around.rank} of {around.size} of a shardwise job, and a rank "
            "cannot start ranks that are processes; ranks as threads it can: spawn(fn, transport='threads')"
        )
    raise LaunchError(
        f"this process is already rank {around.rank} of {around.size}, started by {around.launcher}: use "
        "either that launcher (with `python script.py`) or `shardwise run`, not one inside the other. If "
        "its variables are left over from something else, unset them"
    )


def _cores(count: int) -> str:
    return "core" if count == 1 else "cores"


def _free_port() -> int:
    """A port that nobody uses now, for scripts that start a server of their own on rank 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
