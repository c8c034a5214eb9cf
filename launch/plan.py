"""Everything that is decided before a job starts: command, environment, cores, warnings."""

from __future__ import annotations

import socket
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shardwise.backend.errors import LaunchError
from shardwise.collectives.detect import launcher_environment
from shardwise.launch.command import RANK_VARIABLES, mpi_command
from shardwise.launch.cores import find_cores, split_cores, thread_environment
from shardwise.launch.mpi import find_mpi

__all__ = ["Plan", "plan_job"]

_MOST_RANKS_PER_CORE = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that can be started, printed, or looked at.

    Attributes
    ----------
    size : int
        Number of ranks.
    argv : tuple of str
        The command.
    environment : mapping
        Variables to add for it.
    warnings : tuple of str
        What the user should know.
    """

    size: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    warnings: tuple[str, ...]


def plan_job(
    size: int,
    target: tuple[str, ...],
    environ: Mapping[str, str],
    *,
    pin: bool = True,
    oversubscribe: bool = False,
    mpiexec: str | None = None,
) -> Plan:
    """Decide how to start `size` ranks of a script on this host.

    Parameters
    ----------
    size : int
        Number of ranks. One rank is started without MPI.
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

    Returns
    -------
    Plan

    Raises
    ------
    LaunchError
        If `size` makes no sense here, this process is a rank itself, or there is no MPI for it.
    """
    if size < 1:
        raise LaunchError(f"the number of ranks must be at least 1, got {size}")
    _refuse_nested(environ)
    cores = find_cores()
    if size > _MOST_RANKS_PER_CORE * cores.count and not oversubscribe:
        raise LaunchError(
            f"{size} ranks on {cores.count} {_cores(cores.count)} is more than {_MOST_RANKS_PER_CORE} per "
            f"core: use -n {cores.count}, or --oversubscribe if you mean it"
        )
    environment = thread_environment(max(1, cores.count // size), environ) | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "SHARDWISE_RESTART_COUNT": "0",
        "SHARDWISE_RUN_ID": uuid.uuid4().hex[:12],
    }
    warnings = []
    if size > cores.count:
        warnings.append(
            f"{size} ranks share {cores.count} {_cores(cores.count)}, so each runs slower and waits for the "
            f"others' turns; -n {cores.count} gives each a core of its own"
        )
    elif pin and cores.pinnable:
        shares = split_cores(cores.allowed, size)
        environment["SHARDWISE_CORES"] = ";".join(",".join(map(str, share)) for share in shares)
    program = (sys.executable, str(Path(__file__).with_name("rank.py")))
    if size == 1:
        return Plan(1, (*program, "0", "1", *target), environment, tuple(warnings))
    mpi = find_mpi(mpiexec)
    if mpi.note is not None:
        warnings.append(mpi.note)
    ranked = (*program, RANK_VARIABLES[mpi.flavour], str(size), *target)
    command = mpi_command(mpi, size, ranked, cores.count)
    return Plan(size, command.argv, {**environment, **command.environment}, tuple(warnings))


def _refuse_nested(environ: Mapping[str, str]) -> None:
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
