"""The cores of a host: how many, who may run where, and who starts threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from threadpoolctl import threadpool_info

from shardwise.collectives import launcher_environment
from shardwise.launch.checks.finding import Finding, fail, ok, warn
from shardwise.launch.cores import Cores, find_cores

__all__ = ["check_cores", "judge_affinity", "judge_blas", "judge_cores"]


def check_cores() -> Iterator[Finding]:
    """Look at the cores that this process may use, and at the threads of its BLAS."""
    cores = find_cores()
    launched = launcher_environment(os.environ)
    yield judge_cores(cores, os.cpu_count() or 1, alone=launched is None or launched.size == 1)
    yield judge_blas(_threads_of_blas(), cores.count, os.environ)


def judge_cores(cores: Cores, present: int, *, alone: bool) -> Finding:
    """Say whether this process may use the cores of its host.

    Parameters
    ----------
    cores : Cores
    present : int
        How many the host has.
    alone : bool
        Whether it is no rank of a job, whose ranks may well have a core each.
    """
    allowed = len(cores.allowed)
    what = f"{cores.count} of {present}" if cores.count < present else f"{present}"
    if cores.count < allowed:
        return warn(
            "cores",
            f"{what}: of {allowed} cores a CPU quota lets {cores.count} run at a time, and waiting ranks "
            "use it up",
            f"use at most {cores.count} ranks, or raise the quota (docker --cpus, Kubernetes limits.cpu)",
        )
    if alone and allowed == 1 < present:
        return warn(
            "cores",
            f"{what}: this process is pinned to core {cores.allowed[0]}, and so are all threads of a rank",
            "mpirun --bind-to none, or srun --cpu-bind=none; shardwise run pins ranks itself",
        )
    return ok("cores", what)


def judge_affinity(allowed: Sequence[Sequence[int]], host: str) -> Finding:
    """Say whether the ranks of one host stand in each other's way.

    Parameters
    ----------
    allowed : sequence of sequences of int
        The cores that each rank of the host may run on.
    host : str
    """
    ranks, cores = len(allowed), sorted({core for each in allowed for core in each})
    alone = Counter(each[0] for each in allowed if len(each) == 1)
    crowded = [core for core, count in alone.items() if count > 1]
    what = f"{_count(ranks, 'rank')} on {_count(len(cores), 'core')} of {host}"
    if ranks > 1 and len(cores) == 1:
        return fail(
            "ranks and cores",
            f"{what}: all are pinned to core {cores[0]}",
            "mpirun --bind-to core (or none), or srun --cpu-bind=cores; shardwise run pins ranks itself",
        )
    if crowded:
        return warn(
            "ranks and cores",
            f"{what}: {alone[crowded[0]]} of them are pinned to core {crowded[0]}",
            "one rank per core: mpirun --bind-to core, srun --cpu-bind=cores",
        )
    if ranks > len(cores):
        return warn(
            "ranks and cores",
            f"{what}: each waits for the others' turns",
            f"at most {_count(len(cores), 'rank')} per host, or more cores (srun --cpus-per-task)",
        )
    return ok("ranks and cores", what)


def judge_blas(threads: Sequence[int], cores: int, environ: Mapping[str, str]) -> Finding:
    """Say whether BLAS starts as many threads as there are cores for it.

    Parameters
    ----------
    threads : sequence of int
        Of each BLAS library that is loaded.
    cores : int
    environ : mapping
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    set_by = next((name for name in names if environ.get(name)), "")
    most = max(threads, default=1)
    what = f"{_count(most, 'thread')} on {_count(cores, 'core')}"
    if set_by:
        what += f" ({set_by}={environ[set_by]})"
    if most > cores:
        return warn("BLAS threads", f"{what}: they take turns", f"export OMP_NUM_THREADS={cores}")
    kernels = environ.get("OPENBLAS_CORETYPE")
    if kernels:
        return warn(
            "BLAS threads",
            f"{what}; OPENBLAS_CORETYPE={kernels} makes OpenBLAS run another processor's code, perhaps at "
            "half speed",
            "unset OPENBLAS_CORETYPE",
        )
    return ok("BLAS threads", what)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _threads_of_blas() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each.get("user_api") == "blas"]
