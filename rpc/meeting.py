"""Collectives over calls, for workers that are not in a group of ranks: `_all_gather`, `_barrier`."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import TypeVar

from shardwise.rpc.call import UNSET_RPC_TIMEOUT, call_timeout
from shardwise.rpc.current import current_agent
from shardwise.rpc.serving.gather import gather_bytes

__all__ = ["gather_from_workers", "meet_workers"]

T = TypeVar("T")


def gather_from_workers(
    obj: T, worker_names: Iterable[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT
) -> dict[str, T]:
    """Give all of some workers the objects of all of them; they call it equally often.

    Parameters
    ----------
    obj : object
        What can be pickled; RRefs cannot.
    worker_names : iterable of str, optional
        By default all workers.
    timeout : float
        Seconds; 0 for no limit, -1 for the default of calls.

    Returns
    -------
    dict of str to object
        By the workers' names.

    Raises
    ------
    ArgumentError
        If this worker is not among them.
    RpcTimeoutError
        If not all have come in time.
    """
    found = gather_bytes(
        current_agent(), pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), worker_names, call_timeout(timeout)
    )
    return {name: pickle.loads(data) for name, data in found.items()}


def meet_workers(worker_names: Iterable[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT) -> None:
    """Wait until all of some workers have come here; see `gather_from_workers`."""
    gather_bytes(current_agent(), b"", worker_names, call_timeout(timeout))
