"""The hosts that a batch system has given to the job that this process runs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shardwise.backend.errors import LaunchError
from shardwise.launch.host import Host, merge_hosts, read_hostfile
from shardwise.launch.nodelist import expand_counts, expand_nodelist

__all__ = ["Allocation", "Manager", "find_allocation"]

Manager = Literal["slurm", "lsf", "pbs", "sge", "flux", "hostfile"]

# Where the makers of containers leave a hostfile for the MPI in them (the MPI operator of Kubernetes does).
_HOSTFILE_VARIABLES = (
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
)

# Set where somebody said how many tasks there are to be.
_SLURM_TASKS = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE")


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a batch system gave.

    Attributes
    ----------
    manager : Manager
        Which system; "hostfile" where a variable meant for MPI names a file.
    hosts : tuple of Host
        Empty for Flux, which places ranks itself.
    source : str
        The variable that said so.
    """

    manager: Manager
    hosts: tuple[Host, ...]
    source: str


def find_allocation(environ: Mapping[str, str]) -> Allocation | None:
    """Read the allocation of this job from the environment.

    Parameters
    ----------
    environ : mapping of str to str
        Usually ``os.environ``.

    Returns
    -------
    Allocation or None
        None outside of one.

    Raises
    ------
    LaunchError
        If a variable cannot be understood, or names a file that cannot be read.
    """
    if environ.get("SLURM_JOB_ID"):
        for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
            if environ.get(name):
                return Allocation("slurm", _slurm_hosts(environ, name), name)
    if environ.get("LSB_JOBID"):
        if environ.get("LSB_DJOB_HOSTFILE"):
            hosts = read_hostfile(Path(environ["LSB_DJOB_HOSTFILE"]), "LSB_DJOB_HOSTFILE")
            return Allocation("lsf", hosts, "LSB_DJOB_HOSTFILE")
        if environ.get("LSB_MCPU_HOSTS"):
            return Allocation("lsf", _lsf_hosts(environ["LSB_MCPU_HOSTS"]), "LSB_MCPU_HOSTS")
    if environ.get("PBS_NODEFILE"):
        hosts = read_hostfile(Path(environ["PBS_NODEFILE"]), "PBS_NODEFILE")
        # A host that stands there once is meant for one rank, which a hostfile of a user would leave open.
        return Allocation("pbs", tuple(Host(host.name, host.slots or 1) for host in hosts), "PBS_NODEFILE")
    if environ.get("PE_HOSTFILE"):
        return Allocation("sge", read_hostfile(Path(environ["PE_HOSTFILE"]), "PE_HOSTFILE"), "PE_HOSTFILE")
    if environ.get("FLUX_URI"):
        return Allocation("flux", (), "FLUX_URI")
    for name in _HOSTFILE_VARIABLES:
        if environ.get(name):
            return Allocation("hostfile", read_hostfile(Path(environ[name]), name), name)
    return None


def _slurm_hosts(environ: Mapping[str, str], variable: str) -> tuple[Host, ...]:
    names = expand_nodelist(environ[variable])
    tasks = _per_node(environ, "SLURM_TASKS_PER_NODE", names)
    cores = _per_node(environ, "SLURM_JOB_CPUS_PER_NODE", names)
    if not any(environ.get(name) for name in _SLURM_TASKS):
        # Nobody asked for tasks, so that Slurm counts cores as tasks: one rank a node, until -n says more.
        cores = [own or count for own, count in zip(cores, tasks, strict=True)]
        tasks = [1] * len(names)
    return tuple(Host(name, slots or 1, own) for name, slots, own in zip(names, tasks, cores, strict=True))


def _per_node(environ: Mapping[str, str], variable: str, names: list[str]) -> Sequence[int | None]:
    text = environ.get(variable)
    if not text:
        return [None] * len(names)
    counts = expand_counts(text)
    if len(counts) != len(names):
        raise LaunchError(
            f"{variable}={text} speaks of {len(counts)} nodes, but the job has {len(names)}: "
            f"{','.join(names)}"
        )
    return counts


def _lsf_hosts(text: str) -> tuple[Host, ...]:
    words = text.split()
    if len(words) % 2 or not all(word.isdigit() for word in words[1::2]):
        raise LaunchError(f"cannot read LSB_MCPU_HOSTS={text!r}; wanted hosts, each with a number")
    return merge_hosts(Host(name, int(count)) for name, count in zip(words[::2], words[1::2], strict=True))
