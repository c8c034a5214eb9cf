"""The environment: what other launchers have left in it, and settings that are known to hurt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from shardwise.collectives import launcher_environment
from shardwise.launch.checks.finding import Finding, fail, ok, warn

__all__ = ["check_environment", "judge_leftovers", "judge_settings"]

_OURS = "SHARDWISE_RUN_ID"
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_ALLOCATION = {
    "Slurm": "SLURM_JOB_ID",
    "PBS": "PBS_JOBID",
    "LSF": "LSB_JOBID",
    "Flux": "FLUX_JOB_ID",
    "Grid Engine": "PE_HOSTFILE",
}
# Variable, the value that hurts ("" for any), what it does, what to do.
_HURTS = (
    ("OMPI_MCA_btl", "tcp,self", "sends between ranks of one host through TCP", "unset OMPI_MCA_btl"),
    ("OMPI_MCA_btl", "self,tcp", "sends between ranks of one host through TCP", "unset OMPI_MCA_btl"),
    ("OMPI_MCA_btl_vader_single_copy_mechanism", "none", "copies every message twice", "unset it"),
    ("OMPI_MCA_btl_sm_use_cma", "0", "copies every message twice", "unset it"),
    ("OMPI_MCA_mpi_yield_when_idle", "0", "keeps waiting ranks on their cores", "unset it"),
    ("MPIR_CVAR_ASYNC_PROGRESS", "1", "starts a thread that takes a core of each rank", "unset it"),
    ("MPICH_ASYNC_PROGRESS", "1", "starts a thread that takes a core of each rank", "unset it"),
    ("I_MPI_ASYNC_PROGRESS", "1", "starts a thread that takes a core of each rank", "unset it"),
    ("MPIR_CVAR_NOLOCAL", "1", "sends between ranks of one host through the network", "unset it"),
    ("MPI4PY_RC_THREAD_LEVEL", "single", "leaves asynchronous operations without progress", "unset it"),
    ("MPI4PY_RC_THREADS", "0", "leaves asynchronous operations without progress", "unset it"),
    ("MPI4PY_RC_THREADS", "false", "leaves asynchronous operations without progress", "unset it"),
    ("NUMBA_DISABLE_JIT", "1", "runs fused kernels as Python, a thousand times slower", "unset it"),
    ("PYTHONPROFILEIMPORTTIME", "1", "makes each start slow", "unset it"),
    ("CUDA_LAUNCH_BLOCKING", "1", "makes the host wait for each kernel", "unset it, but to find an error"),
    ("NCCL_P2P_DISABLE", "1", "sends between GPUs through host memory", "unset it"),
    ("NCCL_IB_DISABLE", "1", "sends between hosts through TCP", "unset it where there is InfiniBand"),
    ("NCCL_DEBUG", "INFO", "prints pages of text", "unset it, but to find an error"),
)


def check_environment() -> Iterator[Finding]:
    """Look through this process's environment."""
    yield from judge_leftovers(os.environ)
    yield from judge_settings(os.environ)


def judge_leftovers(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Say which launcher the environment tells of, where it looks like a leftover.

    Under ``torchrun``, or in a shell that once was, RANK and WORLD_SIZE say that this is one of many.
    """
    launched = launcher_environment(environ)
    if launched is None:
        names = sorted(name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if name in environ)
        if names:
            yield warn(
                "launcher",
                "none, though a job that is over has left "
                f"{', '.join(f'{name}={environ[name]}' for name in names)}",
                f"unset {' '.join(names)}",
            )
        else:
            yield ok("launcher", "none; a script alone is a world of one")
    elif launched.launcher == "torchrun" and _OURS not in environ and "TORCHELASTIC_RUN_ID" not in environ:
        left = [name for name in _TORCHRUN if name in environ]
        yield fail(
            "launcher",
            f"RANK={environ['RANK']} and WORLD_SIZE={environ['WORLD_SIZE']} are set, but nothing runs that "
            "would "
            "set them: scripts take themselves for a part of a job",
            f"unset {' '.join(left)}",
        )
    else:
        yield ok("launcher", f"{launched.launcher}, {launched.size} ranks")
    for system, name in _ALLOCATION.items():
        if environ.get(name):
            yield ok("allocation", f"{system}, job {environ[name]}")


def judge_settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Name settings that are known to hurt."""
    hurt = False
    for name, value, does, todo in _HURTS:
        if environ.get(name, "").strip().lower() == value.lower():
            hurt = True
            yield warn(
                "settings", f"{name}={environ[name]} {does}", f"unset {name}" if todo == "unset it" else todo
            )
    if environ.get("OMP_PROC_BIND", "false").lower() not in ("false", "") and not environ.get(
        "OMP_NUM_THREADS"
    ):
        hurt = True
        yield warn(
            "settings",
            f"OMP_PROC_BIND={environ['OMP_PROC_BIND']} without OMP_NUM_THREADS puts threads of all ranks "
            "on one core",
            "unset OMP_PROC_BIND, or export OMP_NUM_THREADS",
        )
    if not hurt:
        yield ok("settings", "none that is known to hurt")
