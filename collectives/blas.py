"""How many cores a rank has, and keeping BLAS to them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from threadpoolctl import threadpool_limits

__all__ = ["allowed_cores", "limit_blas", "share_of_cores"]

_SET_BY_USER = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def allowed_cores() -> list[int]:
    """Give the cores that this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def share_of_cores(mine: int, allowed: Sequence[Sequence[int]]) -> float:
    """Give the number of cores that one rank of a host has for itself.

    Parameters
    ----------
    mine : int
        Index of the rank in `allowed`.
    allowed : sequence of sequences of int
        The cores that each rank of the host may run on.

    Returns
    -------
    float
        Every core counts for one over the number of ranks that may run on it: all of a rank's cores where
        ranks are pinned apart, an equal part where they share, less than 1 where they crowd.

    Examples
    --------
    >>> share_of_cores(0, [[0, 1, 2, 3], [0, 1, 2, 3]])
    2.0
    >>> share_of_cores(0, [[0, 1], [2, 3]])
    2.0
    """
    return math.fsum(1 / sum(core in others for others in allowed) for core in allowed[mine])


def limit_blas(cores: float, environ: Mapping[str, str]) -> bool:
    """Keep the BLAS libraries of this process to whole `cores`, at least one, unless the user has.

    Returns
    -------
    bool
        Whether it did; not where a variable such as OMP_NUM_THREADS is set.
    """
    if any(environ.get(name) for name in _SET_BY_USER):
        return False
    threadpool_limits(limits=max(1, int(cores + 1e-6)), user_api="blas")
    return True
