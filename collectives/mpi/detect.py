"""Which launcher started this process, and as which rank: read from the environment, before any MPI.

Every launcher tells its processes their rank by variables of its own. This file is the table of them.
The environment decides only what must be decided before MPI starts (whether to start it at all, which
device to touch); once MPI runs, its word is compared with this one.

References
----------
The rows for Open MPI 5 and MPICH 5 were read from running processes; the others from the launchers'
documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LauncherEnvironment", "launcher_environment"]


@dataclass(frozen=True, slots=True)
class LauncherEnvironment:
    """What a launcher says of this process.

    Attributes
    ----------
    launcher : str
        In words, such as ``"Open MPI's mpirun"``.
    rank, size : int
        Place in the job and number of its processes.
    local_rank, local_size : int or None
        The same within this host; None where the launcher does not say.
    node_rank : int or None
        Place of this host among those of the job; None where the launcher does not say.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int | None
    local_size: int | None
    node_rank: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """Names of the variables of one launcher, the first one set of each tuple counting.

    All of `needs` must be set for the row to apply, beside a rank and a size.
    """

    launcher: str
    rank: tuple[str, ...]
    size: tuple[str, ...]
    local_rank: tuple[str, ...] = ()
    local_size: tuple[str, ...] = ()
    node_rank: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


# The innermost launcher wins, so those that start processes inside an allocation or a step of another
# come first: mpirun runs inside Slurm, PALS speaks PMI, `shardwise run` sets torchrun's names too.
_ROWS = (
    _Row(
        "Open MPI's mpirun",
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Row(
        "MVAPICH's mpirun",
        ("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"),
        ("MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"),
        ("MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
        ("MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"),
    ),
    _Row(
        "PALS (Cray mpiexec)",
        ("PALS_RANKID",),
        ("PALS_SIZE", "PMI_SIZE"),
        ("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        ("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        ("PALS_NODEID",),
    ),
    _Row(
        "Intel MPI's mpiexec",
        ("PMI_RANK",),
        ("PMI_SIZE",),
        ("MPI_LOCALRANKID",),
        ("MPI_LOCALNRANKS",),
        needs=("I_MPI_*", "MPI_LOCALRANKID"),
    ),
    _Row(
        "MPICH's mpiexec",
        ("PMI_RANK",),
        ("PMI_SIZE",),
        ("MPI_LOCALRANKID",),
        ("MPI_LOCALNRANKS",),
        needs=("MPI_LOCALRANKID",),
    ),
    _Row(
        "IBM's jsrun",
        ("JSM_NAMESPACE_RANK",),
        ("JSM_NAMESPACE_SIZE",),
        ("JSM_NAMESPACE_LOCAL_RANK",),
        ("JSM_NAMESPACE_LOCAL_SIZE",),
    ),
    _Row("Flux", ("FLUX_TASK_RANK",), ("FLUX_JOB_SIZE",), ("FLUX_TASK_LOCAL_ID",)),
    # A batch script and an salloc shell carry SLURM_PROCID=0 and SLURM_NTASKS=N too; only a process
    # that srun started has a step, and the step's own number of tasks.
    _Row(
        "Slurm's srun",
        ("SLURM_PROCID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_LOCALID",),
        node_rank=("SLURM_NODEID",),
        needs=("SLURM_STEP_ID",),
    ),
    _Row(
        "an MPI launcher that speaks PMI",
        ("PMI_RANK",),
        ("PMI_SIZE",),
        ("PMI_LOCAL_RANK",),
        ("PMI_LOCAL_SIZE",),
    ),
    _Row("torchrun", ("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",), ("GROUP_RANK",)),
)

# Step ids above this are Slurm's own (the batch script, the external step, an interactive shell).
_LARGEST_SLURM_STEP = 0xFFFFFFF0


def launcher_environment(environ: Mapping[str, str]) -> LauncherEnvironment | None:
    """Read what the innermost launcher says of this process.

    Parameters
    ----------
    environ : mapping of str to str
        Usually ``os.environ``.

    Returns
    -------
    LauncherEnvironment or None
        None outside every launcher. A row whose numbers make no sense (not integers, a rank that is not
        below the size) does not apply.

    Examples
    --------
    >>> found = launcher_environment({"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"})
    >>> found.launcher, found.rank, found.size, found.local_rank, found.local_size
    ("MPICH's mpiexec", 1, 4, 1, None)
    >>> launcher_environment({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) is None  # a batch script
    True
    """
    for row in _ROWS:
        found = _read(row, environ)
        if found is not None:
            return found
    return None


def _read(row: _Row, environ: Mapping[str, str]) -> LauncherEnvironment | None:
    if not all(_is_set(name, environ) for name in row.needs):
        return None
    rank, size = _first(row.rank, environ), _first(row.size, environ)
    if rank is None or size is None or not 0 <= rank < size:
        return None
    local_rank, local_size = _first(row.local_rank, environ), _first(row.local_size, environ)
    if "SLURM_STEP_ID" in row.needs:
        step = _first(("SLURM_STEP_ID",), environ)
        if step is None or step > _LARGEST_SLURM_STEP:
            return None
        local_size = _tasks_on_node(environ)
    # OMPI_COMM_WORLD_NODE_RANK is something else; but `shardwise run` has counted the hosts for all of them.
    counted = ("NODE_RANK",) if "SHARDWISE_RUN_ID" in environ else ()
    node_rank = _first((*row.node_rank, *counted), environ)
    return LauncherEnvironment(row.launcher, rank, size, local_rank, local_size, node_rank)


def _is_set(name: str, environ: Mapping[str, str]) -> bool:
    if name.endswith("*"):
        return any(each.startswith(name[:-1]) for each in environ)
    return name in environ


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> int | None:
    for name in names:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _tasks_on_node(environ: Mapping[str, str]) -> int | None:
    """Read this node's entry of a list such as ``2(x3),1``: three nodes with 2 tasks, one with 1."""
    text = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    node = _first(("SLURM_NODEID",), environ)
    if node is None:
        return None
    for entry in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\(x(\d+)\))?\s*", entry)
        if match is None:
            return None
        tasks, nodes = int(match[1]), int(match[2] or 1)
        if node < nodes:
            return tasks
        node -= nodes
    return None
