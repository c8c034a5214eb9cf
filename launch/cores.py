"""Which cores this job may use, and how ranks on one host share them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["THREAD_VARIABLES", "Cores", "find_cores", "split_cores", "thread_environment"]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""What the numerical libraries read, each in its own variable, before they start their threads."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of this host that a job may use.

    Attributes
    ----------
    allowed : tuple of int
        The cores that the scheduler lets this process run on. Hardware threads of one core are neighbours.
    count : int
        How many of them can be busy at once: less than ``len(allowed)`` under a CPU quota.
    pinnable : bool
        Whether ranks may be pinned to single cores.
    """

    allowed: tuple[int, ...]
    count: int
    pinnable: bool


def find_cores() -> Cores:
    """Read the cores of this process from its affinity mask and its control group.

    Returns
    -------
    Cores
        Not pinnable where the system has no affinity calls, or under a CPU quota: a quota says how much, not
        where, so containers that share a host would all pin themselves to the same first cores.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = tuple(sorted(os.sched_getaffinity(0), key=_physical_place))
        pinnable = True
    else:
        allowed = tuple(range(os.cpu_count() or 1))
        pinnable = False
    quota = _cpu_quota()
    if quota is None or quota >= len(allowed):
        return Cores(allowed, len(allowed), pinnable)
    return Cores(allowed, max(1, math.ceil(quota)), pinnable=False)


def split_cores(cores: Sequence[int], n: int) -> tuple[tuple[int, ...], ...]:
    """Give each of `n` ranks its own run of cores, sizes differing by one at most.

    Parameters
    ----------
    cores : sequence of int
        The cores to share, at least `n` of them.
    n : int
        The number of ranks.

    Returns
    -------
    tuple of tuple of int
        One entry per rank: disjoint, never empty, together all of `cores`.

    Examples
    --------
    >>> split_cores([0, 1, 2, 3, 4], 2)
    ((0, 1), (2, 3, 4))
    """
    if not 1 <= n <= len(cores):
        raise ValueError(f"cannot give each of {n} ranks a core of its own: there are {len(cores)} cores")
    bounds = [rank * len(cores) // n for rank in range(n + 1)]
    return tuple(tuple(cores[bounds[rank] : bounds[rank + 1]]) for rank in range(n))


def thread_environment(threads: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The thread variables that a rank should get so that ranks do not fight over cores.

    Parameters
    ----------
    threads : int
        Threads per rank.
    environ : mapping
        The launcher's environment. A variable that the user set there is left alone.

    Returns
    -------
    dict
        Only what has to be added. If the user set ``OMP_NUM_THREADS``, which all of these libraries read when
        their own variable is missing, nothing is added that would override it.
    """
    if "OMP_NUM_THREADS" in environ:
        return {}
    return {name: str(threads) for name in THREAD_VARIABLES if name not in environ}


def _physical_place(core: int) -> tuple[int, int, int]:
    """Sort key (package, core, number): hardware threads of one core become neighbours."""
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        package = int((topology / "physical_package_id").read_text())
        physical = int((topology / "core_id").read_text())
    except (OSError, ValueError):
        return (0, core, core)
    return (package, physical, core)


def _cpu_quota() -> float | None:
    """The CPU limit of this process's control group in cores; None without one (cgroup v2, then v1)."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if limit != "max":
            return int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text())
        period_us = int(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return None
    return quota / period_us if quota > 0 and period_us > 0 else None
