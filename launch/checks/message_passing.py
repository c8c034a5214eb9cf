"""MPI on this host: what mpi4py loads, which mpiexec starts it, and whether that suits the place."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from shardwise.backend.errors import LaunchError
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.mpi import MpiInstallation, find_mpi

__all__ = ["check_mpi", "judge_thread_level", "judge_wheel"]

_SITE = "module load the site's MPI, and build mpi4py with it: see Clusters in the documentation"
_BATCH = {"SLURM_JOB_ID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF", "FLUX_JOB_ID": "Flux"}


def check_mpi() -> Iterator[Finding]:
    """Look for the MPI that mpi4py uses and the mpiexec that belongs to it; starts neither."""
    if importlib.util.find_spec("mpi4py") is None:
        yield warn(
            "MPI",
            "no mpi4py: ranks can only be threads of one process",
            "pip install 'shardwise[mpich]', or build mpi4py with the MPI of this cluster (see Clusters)",
        )
        return
    try:
        mpi = find_mpi()
    except LaunchError as error:
        text = " ".join(str(error).split())
        what, _, todo = text.partition(". ")
        if _started_otherwise(text):
            yield ok("MPI", f"{what}")
        else:
            yield fail(
                "MPI", what, todo or "pip install 'shardwise[mpich]', or load the module of one MPI only"
            )
        return
    yield ok("MPI", f"{' '.join(mpi.version.split())}, started by {mpi.mpiexec}")
    if mpi.note is not None:
        yield warn(
            "mpiexec", mpi.note, "take the other one out of PATH (module unload), or always use shardwise run"
        )
    else:
        yield ok("mpiexec", "of the same make as the library")
    yield judge_wheel(mpi, os.environ, shutil.which("srun") is not None)


def judge_wheel(mpi: MpiInstallation, environ: Mapping[str, str], has_srun: bool) -> Finding:
    """Say whether a wheel's MPI runs where the cluster has one of its own.

    Parameters
    ----------
    mpi : MpiInstallation
    environ : mapping
    has_srun : bool
        Whether Slurm is on this host, also outside an allocation.
    """
    # Conda's are in the prefix too, and as foreign to the fabric of the cluster.
    packaged = mpi.mpiexec.startswith(sys.prefix + os.sep)
    batch = next((system for name, system in _BATCH.items() if environ.get(name)), "")
    if packaged and batch:
        return warn(
            "MPI's origin",
            f"{mpi.flavour} from this environment in a {batch} allocation: it may not span hosts, nor know "
            "their "
            "fast network",
            _SITE,
        )
    if packaged and has_srun:
        return warn(
            "MPI's origin",
            f"{mpi.flavour} from this environment, on a Slurm cluster, which has one for its network",
            _SITE,
        )
    return ok("MPI's origin", "this Python's environment" if packaged else "this system")


def judge_thread_level(level: str) -> Finding:
    """Say what MPI allows threads to do: "single", "funneled", "serialized" or "multiple"."""
    if level == "multiple":
        return ok("thread level", level)
    if level == "serialized":
        return warn(
            "thread level",
            "serialized: groups of one process wait for each other inside MPI",
            "unset MPI4PY_RC_THREAD_LEVEL, and on Cray MPICH_MAX_THREAD_SAFETY; or take another MPI",
        )
    return warn(
        "thread level",
        f"{level}: asynchronous operations advance only while somebody waits for them",
        "unset MPI4PY_RC_THREAD_LEVEL and MPI4PY_RC_THREADS; or take an MPI built with threads",
    )


def _started_otherwise(text: str) -> bool:
    return "does not know how to start" in text
